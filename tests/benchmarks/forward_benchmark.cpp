// A whole forward pass against the machine's two ceilings: decode (M = 1), verification of M - 1
// drafts, prefill of 64 and 512 tokens. Random bf16 weights of the shapes that inflation has: 134
// million and 1.24 billion parameters. And loading a checkpoint of that size from the page cache.
//
//   forward_benchmark [--threads=N] [--samples=N] [--by-turns] [Google Benchmark's options]
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
#include "tests/benchmarks/steady_samples.h"
#include "tests/checkpoint_builder.h"

namespace specdec {
namespace {

constexpr int kMostRows = 512, kCached = 64;

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

  double matrix_bytes() const {
    return static_cast<double>(model_.layer_bytes() + model_.head().bytes());
  }

  // New tokens, with logits for each, or without any where they are a prefill.
  void pass(int rows) {
    if (!llama_) prefill();
    const int logits_rows = logits_of(rows);
    llama_->forward(Segment{sequence_, tokens(rows), logits_rows}, logits_->rows(0, logits_rows));
    llama_->truncate(sequence_, kCached);
  }
  Work work(int rows) const {  // two bytes and two operations a weight
    const double weights =
        logits_of(rows) > 0 ? matrix_bytes() : static_cast<double>(model_.layer_bytes());
    const double cached = kCached * static_cast<double>(model_.kv_shape().bytes_per_token());
    return {weights + cached, weights * rows};
  }

 private:
  static int logits_of(int rows) { return rows > 16 ? 0 : rows; }
  void prefill() {
    cache_.emplace(model_.backend(), model_.kv_shape(), (kCached + kMostRows) / 16 + 1, 16);
    llama_.emplace(model_, *cache_, LlamaOptions{.max_pass_rows = kMostRows});
    logits_.emplace(*llama_, 16);
    sequence_ = llama_->create();
    llama_->forward(Segment{sequence_, tokens(kCached), 0}, {});
  }
  std::span<const TokenId> tokens(int count) const {
    return std::span(tokens_).first(static_cast<std::size_t>(count));
  }

  LlamaModel model_;
  std::optional<PagedKvCache> cache_;
  std::optional<Llama> llama_;
  std::optional<LogitsBuffer> logits_;
  std::vector<TokenId> tokens_ = std::vector<TokenId>(kMostRows, 7);
  SequenceId sequence_ = 0;
};

// A shape's checkpoint and models, made when they are first asked for and kept: benchmarks take
// turns. The models are copies that no cache holds together; passes take them in turn.
class Shape {
 public:
  Shape(std::string name, Json config, Backend& backend)
      : name_(std::move(name)), config_(std::move(config)), backend_(backend) {}

  const std::string& name() const { return name_; }
  CachedModel& first() {
    if (models_.empty()) add_copy();
    return models_[0];
  }
  void pass(int rows) {
    while (static_cast<int>(models_.size()) < beyond_caches(first().matrix_bytes())) add_copy();
    models_[next_++ % models_.size()].pass(rows);
  }

  // Loads one more, from the page cache, and lets go of it, twice. Returns the seconds of the
  // second loading: the first gets memory that a virtual machine may have given back to its host.
  double load() {
    first();  // the file has been read before
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

// Opening, reading and packing: seconds a gigabyte.
void load(benchmark::State& state, Shape& shape) {
  Samples samples;
  const double bytes = shape.first().matrix_bytes();
  for (auto _ : state) {
    const double seconds = shape.load();
    state.SetIterationTime(seconds);
    samples["seconds"].push_back(seconds);
    samples["bytes_per_second"].push_back(bytes / seconds);
    samples["seconds_per_gigabyte"].push_back(seconds / bytes * 1e9);
  }
  samples.report(state);
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  specdec::KernelProgram program(argc, argv, 15);
  const auto backend = specdec::make_cpu_backend(program.threads());
  specdec::Shape shapes[] = {{"134m", specdec::shape_134m(), *backend},
                             {"1b", specdec::llama_3_2_1b_config(), *backend}};
  for (specdec::Shape& shape : shapes) {
    program.add(
        "forward/" + shape.name(), {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 64, 512},
        [&](int rows) { return shape.first().work(rows); }, [&](int rows) { shape.pass(rows); });
    program.add("load/" + shape.name(), {}, std::min(program.samples(), 3),
                [&](benchmark::State& state) { specdec::load(state, shape); });
  }
  return program.run(backend->name());
}
