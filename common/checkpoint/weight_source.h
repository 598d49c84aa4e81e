#pragma once
#include <cstddef>
#include <memory>

#include "common/base/mapped_file.h"
#include "common/checkpoint/llama_config.h"
#include "common/checkpoint/safetensors.h"

namespace specdec {

// The tensors of a Llama; checkpoint.h has their shapes.
enum class WeightKind {
  kEmbedding,
  // In every layer:
  kAttnNorm,
  kQProj,
  kKProj,
  kVProj,
  kOProj,
  kMlpNorm,
  kGateProj,
  kUpProj,
  kDownProj,
  // After the layers:
  kFinalNorm,
  kHead,  // the embedding itself if the head is tied
};

// A tensor, valid as long as this object and its source exist.
struct Weight {
  TensorView view;
  std::unique_ptr<std::byte[]> memory = nullptr;  // owned; null: the view is into the source
  ReadOnce mapped = {};                           // the part of a file, if it is one
};

// A source of a model's weights, one tensor at a time.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  virtual const LlamaConfig& config() const = 0;

  // The tensor of that kind, F32, F16 or BF16; matrices also Q4_1 or Q8_0. layer: -1 outside the
  // layers. One thread at a time.
  virtual Weight weight(WeightKind kind, int layer) const = 0;
};

}  // namespace specdec
