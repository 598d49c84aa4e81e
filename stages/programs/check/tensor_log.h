#pragma once
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/llama.h"
#include "stages/programs/comparator/comparator.h"

namespace specdec {

// Tensors of one forward pass, kept on the host by their golden names: for --dump and --check.
class TensorLog {
 public:
  // Appends rows to the tensor of that name (a long batch is computed in several passes).
  void add(TensorKind kind, int layer, std::span<const float> rows, int width);

  TensorLookup lookup() const;  // REQUIRES: the log outlives it
  // All tensors, float32. Whole or not at all; throws Error.
  void write(const std::filesystem::path& path) const;

 private:
  struct Tensor {
    std::vector<float> values;
    int width = 0;
  };
  std::map<std::string, Tensor> tensors_;
};

// "layers.3.q_rope", "logits".
std::string tensor_name(TensorKind kind, int layer);

// All tensors that the model computes for these tokens, in a new sequence that is then released.
TensorLog record_forward(Llama& model, std::span<const TokenId> tokens);

// Keys and values of a sequence as the cache stores them, position by position: layers.{i}.k_rope
// and layers.{i}.v.
TensorLog record_cache(const KvCache& cache, SequenceId sequence);

// The logits that decided each token, [tokens, vocab_size]; for --dump-logits.
class LogitsLog {
 public:
  explicit LogitsLog(std::filesystem::path path) : path_(std::move(path)) {}

  bool wanted() const { return !path_.empty(); }
  void add(std::span<const float> row);
  void add(Backend& backend, ConstDeviceRows rows);
  void write() const;  // does nothing unless wanted; throws Error

 private:
  std::filesystem::path path_;
  std::vector<float> values_;
  int width_ = 0;
};

}  // namespace specdec
