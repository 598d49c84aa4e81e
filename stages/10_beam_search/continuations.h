#pragma once
#include <span>
#include <vector>

#include "common/base/token_id.h"
#include "kernels/ops.h"

namespace specdec {

// A beam with one more token.
struct Continuation {
  int beam = 0;  // the number of the beam that it extends
  TokenId token = 0;
  double score = 0;  // the sum of the log-probabilities of its generated tokens

  bool operator==(const Continuation&) const = default;
};

// A beam that is extended: where its logits are, and its score so far.
struct BeamRow {
  int row = 0;
  double score = 0;
};

// The `count` best continuations of all beams, the best first; among equals, the lower beam first,
// then the lower id. Fewer if there are fewer: an id whose logit is minus infinity is no token.
// logits: [rows, V]; log-probabilities are float64, from logits in float32. Throws BadLogits where
// a beam's logits are no distribution.
std::vector<Continuation> best_continuations(Backend& backend, ConstDeviceRows logits,
                                             std::span<const BeamRow> beams, int count);

}  // namespace specdec
