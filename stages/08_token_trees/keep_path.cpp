#include "stages/08_token_trees/keep_path.h"

namespace specdec {

// [snippet keep-path]
void keep_path(const TreeRound& round, const TreeCaches& caches, std::vector<int>& kept) {
  // [task 8.4: keep the path]
  // Behind the start the target's cache has the pending token, then the nodes in their order.
  kept.assign(1, round.start);
  for (const int node : round.path) kept.push_back(round.start + 1 + node);
  caches.target.keep(caches.sequence, round.start, kept);
  if (round.drafted > 0) caches.drafter.keep(caches.draft_sequence, round.path);
  // [end task 8.4]
}
// [end snippet keep-path]

}  // namespace specdec
