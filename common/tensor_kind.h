#pragma once

namespace specdec {

// The tensors of a Llama forward pass that golden files and dumps name, in the order of the data
// flow: `embedding`; `layers.{i}.attn_norm` ... `layers.{i}.residual`; `final_norm`; `logits`.
// All are [T, width], one row per token.
enum class TensorKind {
  kEmbedding,
  kAttnNorm,
  kQ,
  kK,
  kV,
  kQRope,
  kKRope,
  kAttnOut,  // heads side by side, before o_proj
  kAttnResidual,
  kMlpNorm,
  kGate,
  kUp,
  kMlpOut,  // after down_proj
  kResidual,
  kFinalNorm,
  kLogits,
};

}  // namespace specdec
