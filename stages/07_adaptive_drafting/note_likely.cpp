#include "stages/07_adaptive_drafting/note_likely.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace specdec {

// [snippet note-likely]
// The row of emitted token i was computed after the pending token and i accepted drafts, which are
// in the text now. Rows that were computed after rejected drafts are never read.
void note_likely(const Round& round, ConstDeviceRows logits, Backend& backend,
                 LikelyTokens& likely) {
  std::vector<float> row(static_cast<std::size_t>(logits.width));
  std::vector<TokenId> ids(row.size());
  const auto k = static_cast<std::size_t>(likely.k());
  for (int i = 0; i < round.emitted(); i++) {
    backend.download(logits.row(round.row_of(i)), row.data(), row.size() * sizeof(float));
    std::iota(ids.begin(), ids.end(), 0);
    std::ranges::partial_sort(ids, ids.begin() + likely.k(), [&](TokenId a, TokenId b) {
      const float of_a = row[a], of_b = row[b];
      return of_a > of_b || (of_a == of_b && a < b);
    });
    likely.add(std::span(ids).first(k));
  }
}
// [end snippet note-likely]

Judging with_notes(Judging judging, Backend& backend, int k) {
  judging.judge = [judge = std::move(judging.judge), &backend,
                   k](std::span<const RoundToJudge> rounds) {
    judge(rounds);
    for (const RoundToJudge& r : rounds) {
      if (r.failure) continue;  // the request ends here
      std::shared_ptr<LikelyTokens>& likely = r.judge.drafting().likely;
      if (!likely) likely = std::make_shared<LikelyTokens>(k, r.round.start + 1);
      note_likely(r.round, r.logits, backend, *likely);
    }
  };
  return judging;
}

}  // namespace specdec
