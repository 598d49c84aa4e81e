#pragma once
#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace specdec {

// Why a round ended.
enum class RoundEnd {
  kAllAccepted,  // every draft was accepted, and the bonus token followed
  kRejected,     // a draft was rejected, and the correction followed
  kStopped,      // a stop condition ended it before a correction or bonus
};

std::string_view round_end_name(RoundEnd end);  // "all accepted", "rejected", "stopped"

// The outcome of one round of speculation.
struct Round {
  int start = 0;     // tokens that the target had cached before, without the pending token
  int drafted = 0;   // K of this round; 0 makes it a plain step
  int accepted = 0;  // accepted drafts
  RoundEnd end = RoundEnd::kAllAccepted;
  double sum_acceptance_prob = 0;  // the sum of sum min(p, q) over the tested drafts

  // Used from stage 8 on, where drafts may branch. Then `drafted` is the tree's depth, and a
  // position counts as tested if at least one draft for it was tested.
  std::vector<int> path = {};       // accepted nodes, from the root on
  std::vector<int> tested_at = {};  // the number of trials at each tested position

  int tested() const { return accepted + (end == RoundEnd::kRejected ? 1 : 0); }
  int emitted() const { return accepted + (end == RoundEnd::kStopped ? 0 : 1); }
  // The row of logits that decided emitted token i. Row 0 follows the pending token, row j + 1
  // follows draft j.
  int row_of(int i) const { return i == 0 || path.empty() ? i : path[i - 1] + 1; }
  // Cached lengths after the rollback.
  int target_length() const { return start + accepted + 1; }
  int draft_length() const { return start + std::min(drafted, accepted + 1); }
  // The drafts that enter the statistics. Drafts after a stop were never tested, so they do not.
  int counted() const { return end == RoundEnd::kStopped ? accepted : drafted; }
};

// [snippet round-spec-length]
// K of a round that starts with `start` cached tokens. The target is fed K + 1 tokens, the draft
// model K, and neither may exceed its context. At least 0.
inline int round_spec_length(int spec_length, int start, int context_limit,
                             int draft_context_limit) {
  return std::max(0, std::min({spec_length, context_limit - start - 1,  //
                               draft_context_limit - start}));
}
// [end snippet round-spec-length]

}  // namespace specdec
