#pragma once
#include <memory>

#include "common/checkpoint/weight_source.h"
#include "kernels/cpu/thread_team.h"

namespace specdec {

// A model embedded in a larger shape: the same function, at the larger shape's cost. Its weights
// are made one tensor at a time, when they are asked for.
//
// The base's numbers are the upper left block of every matrix [outputs, inputs], in the base's
// type. The residual's new dimensions stay exactly zero, so whatever reads only them gives exact
// zeros; all but the blocks that keep it so is random:
//
//              right of the base's block   below it
//   q, k, up            random              random
//   v, gate             random              zero       new outputs are 0, from new inputs alone
//   o, down             random              zero       right: reads the zeros of v and gate
//   embedding           zero                random     below: rows of no token
//   head                random              random
//
// New layers add nothing: their v and gate are zero in the base's d inputs, all else is random.
// RMSNorm divides by the root of the mean over D dimensions instead of d: its weights are times
// sqrt(d / D), its eps times d / D (inflated_config.h), and it is in float32.
class InflatedWeights final : public WeightSource {
 public:
  // config: of the large model, by inflated_config(). threads: 0 is one for each usable core; how
  // many they are changes no bit.
  // REQUIRES: the base outlives this object.
  InflatedWeights(const WeightSource& base, const LlamaConfig& config, int threads);

  const LlamaConfig& config() const override { return config_; }
  Weight weight(WeightKind kind, int layer) const override;

 private:
  const WeightSource& base_;
  LlamaConfig config_;
  std::unique_ptr<cpu::ThreadTeam> team_;
};

}  // namespace specdec
