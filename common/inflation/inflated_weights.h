#pragma once
#include <memory>

#include "common/checkpoint/weight_source.h"
#include "kernels/cpu/thread_team.h"

namespace specdec {

// A model embedded in a larger shape: the same function, at the larger shape's cost. Its weights
// are made one tensor at a time, on request.
//
// The base's numbers are the upper left block of every matrix [outputs, inputs], in the base's
// type. The residual's new dimensions stay exactly zero, so outputs that read only them are exactly
// zero. The blocks that keep them zero are zero; all others are random:
//
//              right of the base's block   below it
//   q, k, up            random              random
//   v, gate             random              zero       new outputs read new inputs alone: 0
//   o, down             random              zero       right: reads the zeros of v and gate
//   embedding           zero                random     below: rows of no token
//   head                random              random
//
// New layers add nothing: their v and gate are zero in the base's d inputs, the rest is random.
// RMSNorm divides by the root of the mean over D dimensions instead of d. So its weights are
// multiplied by sqrt(d / D), its eps by d / D (inflated_config.h); the weights are float32.
class InflatedWeights final : public WeightSource {
 public:
  // config: of the large model, by inflated_config(). threads: 0 means one per usable core; the
  // number does not change the weights.
  // REQUIRES: the base outlives this object, and has no groups.
  InflatedWeights(const WeightSource& base, const LlamaConfig& config, int threads);

  const LlamaConfig& config() const override { return config_; }
  Weight weight(WeightKind kind, int layer) const override;

 private:
  const WeightSource& base_;
  LlamaConfig config_;
  std::unique_ptr<cpu::ThreadTeam> team_;
};

// The same for a matrix of heads, which read and write rows of the residual stream: random to the
// right of the base's block, zero below it. key: of the random numbers, different for each matrix.
Weight inflated_matrix(const TensorView& base, std::int64_t rows, std::int64_t columns, int key);

}  // namespace specdec
