#include "common/speculation/count_round.h"

namespace specdec {
namespace {

void make_places(std::vector<std::int64_t>& counts, std::size_t n) {
  if (counts.size() < n) counts.resize(n);
}

}  // namespace

void count_round(RunStats& stats, const Round& round) {
  const auto counted = static_cast<std::size_t>(round.counted());
  const auto drafted = static_cast<std::size_t>(round.drafted);
  make_places(stats.rounds_by_drafted, drafted + 1);
  make_places(stats.drafted_at, counted);
  make_places(stats.accepted_at, counted);
  // [task 4.5: count a round]
  stats.rounds++;
  stats.target_forwards++;
  stats.drafted += round.drafted;
  stats.counted += round.counted();
  stats.tested += round.tested();
  stats.accepted += round.accepted;
  stats.emitted += round.emitted();
  stats.sum_acceptance_prob += round.sum_acceptance_prob;
  stats.rounds_by_drafted[drafted]++;
  if (round.drafted == 0) return;  // a plain step
  stats.drafted_rounds++;
  stats.sum_round_acceptance += static_cast<double>(round.accepted) / round.counted();
  for (std::size_t i = 0; i < counted; i++) {
    stats.drafted_at[i]++;
    if (static_cast<int>(i) < round.accepted) stats.accepted_at[i]++;
  }
  // [end task 4.5]
}

}  // namespace specdec
