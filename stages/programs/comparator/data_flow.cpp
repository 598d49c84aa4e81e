#include "stages/programs/comparator/data_flow.h"

#include <array>
#include <charconv>

namespace specdec {
namespace {

struct KindRow {
  std::string_view name;
  std::string_view equation;
};

// In the order of TensorKind.
constexpr std::array<KindRow, 16> kKinds{{
    {"embedding", "the rows of the embedding table that the token ids name"},
    {"attn_norm", "rms_norm(what enters the layer) * input_layernorm"},
    {"q", "attn_norm times q_proj"},
    {"k", "attn_norm times k_proj"},
    {"v", "attn_norm times v_proj"},
    {"q_rope", "q, each head turned by its token's position"},
    {"k_rope", "k, each head turned by its token's position"},
    {"attn_out", "softmax(q_rope . k_rope / sqrt(head_dim)) times v, for each head"},
    {"attn_residual", "what enters the layer + attn_out times o_proj"},
    {"mlp_norm", "rms_norm(attn_residual) * post_attention_layernorm"},
    {"gate", "mlp_norm times gate_proj, before SiLU"},
    {"up", "mlp_norm times up_proj"},
    {"mlp_out", "silu(gate) * up times down_proj"},
    {"residual", "attn_residual + mlp_out"},
    {"final_norm", "rms_norm(the last layer's residual) * norm"},
    {"logits", "final_norm times the head"},
}};

std::optional<TensorKind> kind_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (kKinds[i].name == name) return static_cast<TensorKind>(i);
  }
  return std::nullopt;
}

TensorPlace::Part part_of(TensorKind kind) {
  if (kind == TensorKind::kEmbedding) return TensorPlace::Part::kBefore;
  return kind >= TensorKind::kFinalNorm ? TensorPlace::Part::kAfter : TensorPlace::Part::kLayers;
}

}  // namespace

std::string_view tensor_kind_name(TensorKind kind) {
  return kKinds[static_cast<std::size_t>(kind)].name;
}

std::string_view tensor_kind_equation(TensorKind kind) {
  return kKinds[static_cast<std::size_t>(kind)].equation;
}

bool has_heads(TensorKind kind) { return kind >= TensorKind::kQ && kind <= TensorKind::kAttnOut; }

TensorPlace place_of(TensorKind kind, int layer) {
  const TensorPlace::Part part = part_of(kind);
  return {part, part == TensorPlace::Part::kLayers ? layer : -1, kind};
}

std::optional<TensorPlace> parse_tensor_name(std::string_view name) {
  constexpr std::string_view kPrefix = "layers.";
  int layer = -1;
  if (name.starts_with(kPrefix)) {
    name.remove_prefix(kPrefix.size());
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
    name.remove_prefix(end - name.data());
    if (error != std::errc() || layer < 0 || !name.starts_with('.')) return std::nullopt;
    name.remove_prefix(1);
  }
  const std::optional<TensorKind> kind = kind_from_name(name);
  if (!kind) return std::nullopt;
  const TensorPlace place = place_of(*kind, layer);
  if (place.layer != layer || (place.part == TensorPlace::Part::kLayers && layer < 0)) {
    return std::nullopt;
  }
  return place;
}

}  // namespace specdec
