#pragma once
#include <compare>
#include <optional>
#include <string_view>

#include "common/tensor_kind.h"

namespace specdec {

// The name without its layer, e.g. "q_rope".
std::string_view tensor_kind_name(TensorKind kind);

// The equation that computes it from earlier tensors, for messages.
std::string_view tensor_kind_equation(TensorKind kind);

// Whether a row consists of heads of head_dim elements each.
bool has_heads(TensorKind kind);

// A tensor's place in the data flow; `<` is the order of computation.
struct TensorPlace {
  enum class Part { kBefore, kLayers, kAfter };
  Part part = Part::kBefore;
  int layer = -1;  // -1 outside the layers
  TensorKind kind = TensorKind::kEmbedding;

  auto operator<=>(const TensorPlace&) const = default;
};

// The place of a tensor. `layer` is ignored for kinds outside the layers.
TensorPlace place_of(TensorKind kind, int layer);

// The place of the tensor with this name; nullopt if no tensor has this name.
std::optional<TensorPlace> parse_tensor_name(std::string_view name);

}  // namespace specdec
