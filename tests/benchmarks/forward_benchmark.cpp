// How close a whole forward pass comes to the memory's bandwidth, and what more rows cost: a model
// of 134 million random bf16 parameters, M = 1 .. 8 rows with logits for each, interleaved with
// read sweeps. This is decode (M = 1) and the verification of M - 1 drafts.
//
//   forward_benchmark [threads] [rounds] [cached tokens]
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "common/llama.h"
#include "stages/03_paged_kv_cache/paged_kv_cache.h"
#include "tests/benchmarks/read_sweep.h"
#include "tests/checkpoint_builder.h"

namespace specdec {
namespace {

constexpr int kMaxRows = 8;
constexpr int kForwardsPerSample = 3;

nlohmann::json shape_134m() {
  nlohmann::json config = llama_3_2_1b_config();
  config.update({{"hidden_size", 768},
                 {"num_hidden_layers", 11},
                 {"num_attention_heads", 6},
                 {"num_key_value_heads", 2},
                 {"head_dim", 128},
                 {"intermediate_size", 3072},
                 {"vocab_size", 49152},
                 {"bos_token_id", 1},
                 {"eos_token_id", 2}});
  return config;
}

// A checkpoint on disk for as long as it is being loaded.
class RandomCheckpoint {
 public:
  RandomCheckpoint()
      : directory_(std::filesystem::temp_directory_path() /
                   fmt::format("specdec.forward_benchmark.{}", ::getpid())) {
    const nlohmann::json config = shape_134m();
    write_checkpoint(directory_, config, llama_tensors(config));
  }
  RandomCheckpoint(const RandomCheckpoint&) = delete;
  RandomCheckpoint& operator=(const RandomCheckpoint&) = delete;
  ~RandomCheckpoint() { std::filesystem::remove_all(directory_); }

  Checkpoint open() const { return Checkpoint(directory_); }

 private:
  std::filesystem::path directory_;
};

int run(int threads, int rounds, int cached) {
  const auto backend = make_cpu_backend(threads);
  const LlamaModel model(RandomCheckpoint().open(), *backend);
  PagedKvCache cache(*backend, model.kv_shape(), (cached + kMaxRows) / 16 + 1, 16);
  Llama llama(model, cache);
  const LogitsBuffer logits(llama, kMaxRows);
  const SequenceId sequence = llama.create();
  const std::vector<TokenId> tokens(static_cast<std::size_t>(cached), 7);
  llama.forward(Segment{sequence, tokens, 0}, {});

  const double weights = static_cast<double>(model.layer_bytes() + model.head().bytes());
  const double kv =
      static_cast<double>(cached) * static_cast<double>(model.kv_shape().bytes_per_token());
  fmt::print("{}; {:.1f} MB of weights, {:.1f} MB of keys and values a forward\n", backend->name(),
             weights / 1e6, kv / 1e6);
  ReadSweep sweep(threads);
  std::vector<TimedJob> jobs;
  for (int rows = 1; rows <= kMaxRows; rows++) {
    const auto forwards = [&, rows] {
      for (int i = 0; i < kForwardsPerSample; i++) {
        const auto new_tokens = std::span(tokens).first(static_cast<std::size_t>(rows));
        llama.forward(Segment{sequence, new_tokens, rows}, logits.rows(0, rows));
        llama.truncate(sequence, cached);
      }
    };
    jobs.push_back({forwards, kForwardsPerSample * (weights + kv)});
  }
  print_shares(interleave(sweep, jobs, rounds), jobs, kForwardsPerSample);
  return 0;
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  const auto argument = [&](int i, int otherwise) {
    return i < argc ? std::atoi(argv[i]) : otherwise;
  };
  const int threads = argument(1, 0), rounds = argument(2, 15), cached = argument(3, 64);
  if (argc > 4 || threads < 0 || rounds < 1 || cached < 8) {
    fmt::print(
        stderr,
        "usage: forward_benchmark [threads, 0: all cores] [rounds] [cached tokens, 8 or more]\n");
    return 2;
  }
  return specdec::run(threads, rounds, cached);
}
