#include "stages/08_token_trees/keep_path.h"

#include <vector>

namespace specdec {

// [snippet keep-path]
void keep_path(const Round& round, const RoundCaches& caches) {
  // [task 8.4: keep the path]
  const auto& [target, sequence, drafter, draft_sequence] = caches;
  // From round.start on, the target's cache has the pending token and then all nodes, in order.
  std::vector<int> kept = {round.start};
  for (const int node : round.path) kept.push_back(round.start + 1 + node);
  target.keep(sequence, round.start, kept);
  if (round.drafted > 0) drafter.keep(draft_sequence, round.draft_length(), round.path);
  // [end task 8.4]
}
// [end snippet keep-path]

}  // namespace specdec
