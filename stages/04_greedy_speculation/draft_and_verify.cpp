#include "stages/04_greedy_speculation/draft_and_verify.h"

#include "common/base/check.h"
#include "common/base/stopwatch.h"
#include "common/run_stats.h"

namespace specdec {

DraftAndVerify::DraftAndVerify(LanguageModel& target, Drafter& drafter, int spec_length,
                               int context_limit, KeepProbs keep)
    : target_(target),
      drafter_(drafter),
      spec_length_(spec_length),
      context_limit_(context_limit),
      sequence_(target.create()),
      draft_sequence_(drafter.create()),
      drafts_(spec_length, keep == KeepProbs::kNone ? 0 : target.vocab_size(),
              keep == KeepProbs::kBesideLogits ? sampling_device(target.backend()) : nullptr),
      logits_(target, spec_length + 1) {
  verified_.reserve(static_cast<std::size_t>(spec_length) + 1);
}

DraftAndVerify::~DraftAndVerify() {
  target_.release(sequence_);
  drafter_.release(draft_sequence_);
}

void DraftAndVerify::adapt(AdaptiveSpecLength policy) {
  SPECDEC_CHECK(policy.largest() <= spec_length_, "there is room for {} drafts", spec_length_);
  policy_.emplace(std::move(policy));
}

void DraftAndVerify::prefill(std::span<const TokenId> prompt) {
  if (prompt.size() < 2) return;
  target_.forward(Segment{sequence_, prompt.first(prompt.size() - 1), 0}, {});
}

// [snippet draft-phase]
Round DraftAndVerify::draft(std::span<const TokenId> context, const Sampling& sampling) {
  const Stopwatch watch(draft_seconds);
  Round round;
  round.start = target_.length(sequence_);
  SPECDEC_CHECK(std::ssize(context) == round.start + 1, "{} tokens cached and one pending",
                round.start);
  catches_up_ = drafter_.length(draft_sequence_) < round.start - 1;
  // [task 4.3: choose K and begin a round]
  const int K = round_spec_length(policy_ ? policy_->next() : spec_length_, round.start,
                                  context_limit_, drafter_.context_limit());
  drafts_.clear();
  if (K > 0) {
    const DraftRequest request{draft_sequence_, context, K, sampling, &drafts_};
    drafter_.draft(std::span(&request, 1));
    SPECDEC_CHECK(drafts_.size() <= K, "at most {} drafts, not {}", K, drafts_.size());
  }
  round.drafted = drafts_.size();
  // [end task 4.3]
  return round;
}
// [end snippet draft-phase]

// [snippet verify]
void DraftAndVerify::verify(std::span<const TokenId> context) {
  const Stopwatch watch(verify_seconds);
  // [task 4.4: verify in one pass]
  const auto pending = uncached(target_, sequence_, context);
  verified_.assign(pending.begin(), pending.end());
  verified_.insert(verified_.end(), drafts_.tokens().begin(), drafts_.tokens().end());
  const Segment segment{sequence_, verified_, drafts_.size() + 1};
  target_.forward(segment, logits_.rows(0, segment.logits_rows));
  // [end task 4.4]
}
// [end snippet verify]

// [snippet rollback]
void DraftAndVerify::roll_back(const Round& round) {
  // [task 4.2: roll the caches back]
  // Both caches hold the drafts, of which the draft never saw the last one; the text has only the
  // accepted ones. The last emitted token is in neither cache: it is pending, and the next round
  // feeds it first.
  target_.truncate(sequence_, round.target_length());
  drafter_.truncate(draft_sequence_, round.draft_length());
  // [end task 4.2]
  if (policy_) policy_->learn(round);
}
// [end snippet rollback]

void DraftAndVerify::count(RunStats& stats, const Round& round) const {
  count_round(stats, round);
  if (catches_up_ && round.drafted > 0) {
    stats.catch_up_seconds += draft_seconds - stats.draft_seconds;
    stats.catch_up_drafted += round.drafted;
  }
  stats.draft_seconds = draft_seconds;
  stats.verify_seconds = verify_seconds;
  stats.draft_forwards = drafter_.forwards();
}

}  // namespace specdec
