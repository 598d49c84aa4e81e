#include "common/speculation/count_round.h"

namespace specdec {

// [snippet count-round]
void count_round(RunStats& stats, const Round& round) {
  // [task 4.5: count a round]
  const auto counted = static_cast<std::size_t>(round.counted());
  const auto drafted = static_cast<std::size_t>(round.drafted);
  stats.rounds++;
  stats.target_forwards++;
  stats.drafted += round.counted();
  stats.all_drafted += round.drafted;
  stats.tested += round.tested();
  stats.accepted += round.accepted;
  stats.emitted += round.emitted();
  stats.sum_acceptance_prob += round.sum_acceptance_prob;
  if (drafted >= stats.rounds_by_drafted.size()) stats.rounds_by_drafted.resize(drafted + 1);
  stats.rounds_by_drafted[drafted]++;
  if (round.drafted == 0) return;  // a plain step
  stats.drafted_rounds++;
  stats.sum_round_acceptance += static_cast<double>(round.accepted) / round.counted();
  for (std::size_t i = 0; i < counted; i++) {
    if (i == stats.drafted_at.size()) {
      stats.drafted_at.push_back(0);
      stats.accepted_at.push_back(0);
    }
    stats.drafted_at[i]++;
    if (static_cast<int>(i) < round.accepted) stats.accepted_at[i]++;
  }
  // [end task 4.5]
}
// [end snippet count-round]

}  // namespace specdec
