// A whole forward pass against the machine's two ceilings: decode (M = 1), verification of M - 1
// drafts, prefill of 64 and 512 tokens. Random bf16 weights of the shapes that inflation has: 134
// million and 1.24 billion parameters. And loading a checkpoint of that size from the page cache.
//
//   forward_benchmark [--threads=N] [--samples=N] [--cached=N] [Google Benchmark's options]
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>

#include "common/base/json_value.h"
#include "common/checkpoint/checkpoint.h"
#include "common/llama.h"
#include "stages/03_paged_kv_cache/paged_kv_cache.h"
#include "tests/benchmarks/steady_samples.h"
#include "tests/checkpoint_builder.h"

namespace specdec {
namespace {

constexpr int kMostRows = 512;

Json shape_134m() {
  Json config = llama_3_2_1b_config();
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

// A checkpoint on disk.
class RandomCheckpoint {
 public:
  explicit RandomCheckpoint(const Json& config)
      : directory_(std::filesystem::temp_directory_path() /
                   fmt::format("specdec.forward_benchmark.{}", ::getpid())) {
    write_checkpoint(directory_, config, llama_tensors(config));
  }
  RandomCheckpoint(const RandomCheckpoint&) = delete;
  RandomCheckpoint& operator=(const RandomCheckpoint&) = delete;
  ~RandomCheckpoint() { std::filesystem::remove_all(directory_); }

  Checkpoint open() const { return Checkpoint(directory_); }

 private:
  std::filesystem::path directory_;
};

// The model that benchmarks of one shape share; the last one asked for is kept.
class Models {
 public:
  explicit Models(Backend& backend) : backend_(backend) {}

  const LlamaModel& get(const std::string& name, const Json& config) {
    if (name != name_) {
      model_.reset();
      model_.emplace(RandomCheckpoint(config).open(), backend_);
      name_ = name;
    }
    return *model_;
  }
  void forget() { model_.reset(), name_.clear(); }

 private:
  Backend& backend_;
  std::string name_;
  std::optional<LlamaModel> model_;
};

double matrix_bytes(const LlamaModel& model) {
  return static_cast<double>(model.layer_bytes() + model.head().bytes());
}

// M new tokens after `cached` ones, with logits for each (prefill: for none).
void forward(benchmark::State& state, Machine& machine, const LlamaModel& model, int cached) {
  const int rows = static_cast<int>(state.range(0)), logits_rows = rows > 16 ? 0 : rows;
  PagedKvCache cache(model.backend(), model.kv_shape(), (cached + kMostRows) / 16 + 1, 16);
  Llama llama(model, cache, {.max_pass_rows = kMostRows});
  const LogitsBuffer logits(llama, 16);
  const SequenceId sequence = llama.create();
  const std::vector<TokenId> tokens(static_cast<std::size_t>(std::max(cached, kMostRows)), 7);
  llama.forward(Segment{sequence, std::span(tokens).first(static_cast<std::size_t>(cached)), 0},
                {});
  const auto pass = [&](int new_rows, int new_logits) {
    const auto new_tokens = std::span(tokens).first(static_cast<std::size_t>(new_rows));
    llama.forward(Segment{sequence, new_tokens, new_logits}, logits.rows(0, new_logits));
    llama.truncate(sequence, cached);
  };
  Work work;
  const double weights =
      logits_rows > 0 ? matrix_bytes(model) : static_cast<double>(model.layer_bytes());
  work.bytes = weights + cached * static_cast<double>(model.kv_shape().bytes_per_token());
  work.flops = weights * rows;  // two bytes and two operations a weight
  measure(
      state, machine, work, [&] { pass(1, 1); }, [&] { pass(rows, logits_rows); });
  state.counters["weight_bytes"] = weights;
}

// Opening, reading and packing: seconds a gigabyte.
void load(benchmark::State& state, Backend& backend, const Json& config) {
  const RandomCheckpoint checkpoint(config);
  double bytes = 0;
  std::vector<double> seconds;
  { const LlamaModel warm(checkpoint.open(), backend); }
  for (auto _ : state) {
    std::optional<LlamaModel> model;
    seconds.push_back(seconds_of([&] { model.emplace(checkpoint.open(), backend); }));
    bytes = matrix_bytes(*model);
    state.SetIterationTime(seconds.back());
  }
  state.counters["seconds"] = median(seconds);
  state.counters["bytes_per_second"] = bytes / median(seconds);
  state.counters["seconds_per_gigabyte"] = median(seconds) / bytes * 1e9;
}

void register_benchmarks(Machine& machine, Backend& backend, Models& models, int samples,
                         int cached) {
  const auto finish = [&](benchmark::internal::Benchmark* benchmark, int iterations) {
    benchmark->Iterations(iterations)->UseManualTime()->Unit(benchmark::kMillisecond);
  };
  for (const auto& shape :
       {std::pair{"134m", shape_134m()}, std::pair{"1b", llama_3_2_1b_config()}}) {
    const std::string name = shape.first;
    const Json config = shape.second;
    auto* passes = benchmark::RegisterBenchmark(
        ("forward/" + name).c_str(), [&, cached, name, config](benchmark::State& state) {
          forward(state, machine, models.get(name, config), cached);
        });
    for (const int rows : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 64, 512}) passes->Arg(rows);
    passes->ArgName("M");
    finish(passes, samples);
    finish(benchmark::RegisterBenchmark(("load/" + name).c_str(),
                                        [&, config](benchmark::State& state) {
                                          models.forget();
                                          load(state, backend, config);
                                        }),
           3);
  }
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  const int threads = specdec::take_number(argc, argv, "--threads", 0);
  const int samples = specdec::take_number(argc, argv, "--samples", 15);
  const int cached = specdec::take_number(argc, argv, "--cached", 64);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  specdec::Machine machine(threads);
  const auto backend = specdec::make_cpu_backend(threads);
  benchmark::AddCustomContext("backend", backend->name());
  specdec::Models models(*backend);
  specdec::register_benchmarks(machine, *backend, models, std::max(samples, 1), cached);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
