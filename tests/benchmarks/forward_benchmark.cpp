// A whole forward pass against the machine's two ceilings: decode (M = 1), verification of M - 1
// drafts, prefill of 64 and 512 tokens. Random bf16 weights of the shapes that inflation has: 134
// million and 1.24 billion parameters. And loading a checkpoint of that size from the page cache.
//
//   forward_benchmark [--threads=N] [--samples=N] [--cached=N] [--by-turns]
//                     [Google Benchmark's options]
#include <deque>
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
#include "tests/benchmarks/by_turns.h"
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
  RandomCheckpoint(const std::string& name, const Json& config)
      : directory_(std::filesystem::temp_directory_path() /
                   fmt::format("specdec.forward_benchmark.{}.{}", name, ::getpid())) {
    write_checkpoint(directory_, config, llama_tensors(config));
  }
  RandomCheckpoint(const RandomCheckpoint&) = delete;
  RandomCheckpoint& operator=(const RandomCheckpoint&) = delete;
  ~RandomCheckpoint() { std::filesystem::remove_all(directory_); }

  Checkpoint open() const { return Checkpoint(directory_); }

 private:
  std::filesystem::path directory_;
};

// A model with some tokens in its cache, ready for passes over more.
class CachedModel {
 public:
  CachedModel(const Checkpoint& checkpoint, Backend& backend) : model_(checkpoint, backend) {}

  const LlamaModel& model() const { return model_; }
  double matrix_bytes() const {
    return static_cast<double>(model_.layer_bytes() + model_.head().bytes());
  }

  // REQUIRES: the same `cached` in every call.
  void prefill(int cached) {
    if (llama_) return;
    cache_.emplace(model_.backend(), model_.kv_shape(), (cached + kMostRows) / 16 + 1, 16);
    llama_.emplace(model_, *cache_, LlamaOptions{.max_pass_rows = kMostRows});
    logits_.emplace(*llama_, 16);
    sequence_ = llama_->create();
    llama_->forward(Segment{sequence_, tokens(cached), 0}, {});
    cached_ = cached;
  }

  // REQUIRES: prefill().
  void pass(int rows, int logits_rows) {
    llama_->forward(Segment{sequence_, tokens(rows), logits_rows}, logits_->rows(0, logits_rows));
    llama_->truncate(sequence_, cached_);
  }

 private:
  std::span<const TokenId> tokens(int count) {
    tokens_.resize(static_cast<std::size_t>(std::max(count, kMostRows)), 7);
    return std::span(tokens_).first(static_cast<std::size_t>(count));
  }

  LlamaModel model_;
  std::optional<PagedKvCache> cache_;
  std::optional<Llama> llama_;
  std::optional<LogitsBuffer> logits_;
  std::vector<TokenId> tokens_;
  SequenceId sequence_ = 0;
  int cached_ = 0;
};

// A shape's checkpoint and models, made when they are first asked for and kept: benchmarks take
// turns. The models are copies that no cache holds together; passes take them in turn.
class Shape {
 public:
  Shape(std::string name, Json config, Backend& backend)
      : name_(std::move(name)), config_(std::move(config)), backend_(backend) {}

  const std::string& name() const { return name_; }
  const LlamaModel& model() {
    if (models_.empty()) add_copy();
    return models_[0].model();
  }
  double matrix_bytes() {
    model();
    return models_[0].matrix_bytes();
  }

  // REQUIRES: the same `cached` in every call.
  void prefill(int cached) {
    while (static_cast<int>(models_.size()) < beyond_caches(matrix_bytes())) add_copy();
    for (CachedModel& model : models_) model.prefill(cached);
  }

  // REQUIRES: prefill().
  void pass(int rows, int logits_rows) {
    models_[next_++ % models_.size()].pass(rows, logits_rows);
  }

  // Loads one more, from the page cache, and lets go of it, twice. Returns the seconds of the
  // second loading: the first gets memory that a virtual machine may have given back to its host.
  double load() {
    model();  // the file has been read before
    const auto load_one_more = [&] {
      std::optional<LlamaModel> loaded;
      return seconds_of([&] { loaded.emplace(checkpoint_->open(), backend_); });
    };
    load_one_more();
    return load_one_more();
  }

 private:
  void add_copy() {
    if (!checkpoint_) checkpoint_.emplace(name_, config_);
    models_.emplace_back(checkpoint_->open(), backend_);
  }

  std::string name_;
  Json config_;
  Backend& backend_;
  std::optional<RandomCheckpoint> checkpoint_;
  std::deque<CachedModel> models_;
  std::size_t next_ = 0;
};

// M new tokens after `cached` ones, with logits for each (prefill: for none).
void forward(benchmark::State& state, Machine& machine, Shape& shape, int cached) {
  const int rows = static_cast<int>(state.range(0)), logits_rows = rows > 16 ? 0 : rows;
  shape.prefill(cached);
  const LlamaModel& model = shape.model();
  Work work;
  const double weights =
      logits_rows > 0 ? shape.matrix_bytes() : static_cast<double>(model.layer_bytes());
  work.bytes = weights + cached * static_cast<double>(model.kv_shape().bytes_per_token());
  work.flops = weights * rows;  // two bytes and two operations a weight
  measure(
      state, machine, work, [&] { shape.pass(1, 1); }, [&] { shape.pass(rows, logits_rows); });
  state.counters["weight_bytes"] = weights;
}

// Opening, reading and packing: seconds a gigabyte.
void load(benchmark::State& state, Shape& shape) {
  std::vector<double> seconds;
  for (auto _ : state) {
    seconds.push_back(shape.load());
    state.SetIterationTime(seconds.back());
  }
  const double bytes = shape.matrix_bytes();
  state.counters["seconds"] = median(seconds);
  state.counters["bytes_per_second"] = bytes / median(seconds);
  state.counters["seconds_per_gigabyte"] = median(seconds) / bytes * 1e9;
}

void register_benchmarks(Machine& machine, std::span<Shape> shapes, int samples, int cached) {
  const auto finish = [&](benchmark::internal::Benchmark* benchmark, int iterations) {
    benchmark->Iterations(iterations)->UseManualTime()->Unit(benchmark::kMillisecond);
  };
  for (Shape& shape : shapes) {
    auto* passes = benchmark::RegisterBenchmark(
        ("forward/" + shape.name()).c_str(),
        [&, cached](benchmark::State& state) { forward(state, machine, shape, cached); });
    for (const int rows : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 64, 512}) passes->Arg(rows);
    passes->ArgName("M");
    finish(passes, samples);
    finish(benchmark::RegisterBenchmark(("load/" + shape.name()).c_str(),
                                        [&](benchmark::State& state) { load(state, shape); }),
           std::min(samples, 3));
  }
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  const bool by_turns = specdec::take_by_turns(argc, argv);
  const int threads = specdec::take_number(argc, argv, "--threads", 0);
  const int samples = specdec::take_number(argc, argv, "--samples", 15);
  const int cached = specdec::take_number(argc, argv, "--cached", 64);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  specdec::Machine machine(threads);
  const auto backend = specdec::make_cpu_backend(threads);
  specdec::Shape shapes[] = {{"134m", specdec::shape_134m(), *backend},
                             {"1b", specdec::llama_3_2_1b_config(), *backend}};
  specdec::register_benchmarks(machine, shapes, std::max(samples, 1), cached);
  return specdec::run_registered(by_turns, backend->name());
}
