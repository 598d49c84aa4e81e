#pragma once
#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace specdec {

// Why a round ended.
enum class RoundEnd {
  kAllAccepted,  // with the bonus token
  kRejected,     // with the correction
  kStopped,      // by a stop condition, before a correction or bonus was due
};

std::string_view round_end_name(RoundEnd end);  // "all accepted", "rejected", "stopped"

// What a round of speculation did.
struct Round {
  int start = 0;     // tokens cached by the target before it, the pending token not among them
  int drafted = 0;   // K of this round; 0 makes it a plain step
  int accepted = 0;  // drafts kept
  RoundEnd end = RoundEnd::kAllAccepted;
  double sum_acceptance_prob = 0;  // the sum over the tested drafts of sum min(p, q)

  // Used from stage 8 on, where drafts may branch; then `drafted` is the tree's depth, and a place
  // is tested where at least one draft of it is.
  std::vector<int> path = {};       // nodes that were accepted, from the root on
  std::vector<int> tested_at = {};  // for each place that was tested, its trials

  int tested() const { return accepted + (end == RoundEnd::kRejected ? 1 : 0); }
  int emitted() const { return accepted + (end == RoundEnd::kStopped ? 0 : 1); }
  // Of the logits after the pending token and after each draft, the row that emitted token i is
  // chosen by.
  int row_of(int i) const { return i == 0 || path.empty() ? i : path[i - 1] + 1; }
  // Cached lengths after the rollback.
  int target_length() const { return start + accepted + 1; }
  int draft_length() const { return start + std::min(drafted, accepted + 1); }
  // The drafts that count: those after a stop were drafted for nothing, but tell nothing about the
  // models.
  int counted() const { return end == RoundEnd::kStopped ? accepted : drafted; }
};

// [snippet round-spec-length]
// K of a round that starts with `start` tokens cached: the target feeds K + 1 tokens, the draft K,
// and neither may outgrow its context. At least 0.
inline int round_spec_length(int spec_length, int start, int context_limit,
                             int draft_context_limit) {
  return std::max(0, std::min({spec_length, context_limit - start - 1,  //
                               draft_context_limit - start}));
}
// [end snippet round-spec-length]

}  // namespace specdec
