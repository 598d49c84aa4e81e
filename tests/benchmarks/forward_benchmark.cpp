// A whole forward pass against the machine's two ceilings: decode (M = 1), verification of M - 1
// drafts, prefill of 64 and 512 tokens. Random bf16 weights of the shapes that inflation has: 134
// million and 1.24 billion parameters. And loading a checkpoint of that size from the page cache.
//
//   forward_benchmark [--threads=N] [--samples=N] [--by-turns] [Google Benchmark's options]
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>

#include "common/base/json_value.h"
#include "common/checkpoint/checkpoint.h"
#include "tests/benchmarks/cases.h"
#include "tests/benchmarks/machine.h"
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

// A shape's checkpoint and models, made when they are first asked for and kept: benchmarks take
// turns. The models are copies that no cache holds together; passes take them in turn.
class Shape {
 public:
  Shape(std::string name, Json config, Backend& backend)
      : name_(std::move(name)), config_(std::move(config)), backend_(backend) {}

  const std::string& name() const { return name_; }

  // Rival: plain, a pass over one row.
  Case passes(int rows) {
    const auto pass = [this](int m) {
      return [this, m](int) {
        PassModel& model = models_[next_++ % models_.size()];
        model.pass(model.llama(), m);
      };
    };
    while (models_.empty() || static_cast<int>(models_.size()) < copies()) {
      models_.emplace_back(checkpoint().open(), backend_, kCached, kMostRows);
      models_.back().go_to(kCached);
    }
    return {models_[0].work(rows), pass(rows), {{"plain", pass(1)}}};
  }

  // Opening, reading and packing a checkpoint that has been read before.
  Case loading() {
    const auto load = [this] { return LlamaModel(checkpoint().open(), backend_); };
    const LlamaModel loaded = load();
    return {{static_cast<double>(loaded.layer_bytes() + loaded.head().bytes())},
            [load](int) { static_cast<void>(load()); }};
  }

 private:
  int copies() const { return beyond_caches(models_[0].matrix_bytes()); }
  const RandomCheckpoint& checkpoint() {
    if (!checkpoint_) checkpoint_.emplace(name_, config_);
    return *checkpoint_;
  }

  std::string name_;
  Json config_;
  Backend& backend_;
  std::optional<RandomCheckpoint> checkpoint_;
  std::deque<PassModel> models_;
  std::size_t next_ = 0;
};

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  specdec::KernelProgram program(argc, argv, 15);
  const auto backend = specdec::make_cpu_backend(program.threads());
  specdec::Shape shapes[] = {{"134m", specdec::shape_134m(), *backend},
                             {"1b", specdec::llama_3_2_1b_config(), *backend}};
  for (specdec::Shape& shape : shapes) {
    program.add("forward/" + shape.name(), {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 64, 512},
                [&](int rows) { return shape.passes(rows); });
    program.add("load/" + shape.name(), {}, [&](int) { return shape.loading(); });
  }
  specdec::CpuMachine machine(program.threads());
  return program.run(machine, {{"backend", backend->name()}});
}
