#include "stages/04_greedy_speculation/draft_and_verify.h"

#include <utility>

#include "common/base/check.h"

namespace specdec {

DraftAndVerify::DraftAndVerify(LanguageModel& target, Drafter& drafter,
                               std::unique_ptr<SpecLengthPolicy> policy, int context_limit,
                               Drafts drafts)
    : target_(target),
      drafter_(drafter),
      policy_(std::move(policy)),
      context_limit_(context_limit),
      sequence_(target.create()),
      draft_sequence_(drafter.create()),
      drafts_(std::move(drafts)),
      logits_(target, drafts_.capacity().verified + 1) {
  SPECDEC_CHECK(drafts_.capacity().levels >= policy_->largest(), "room for {} drafts, not {}",
                policy_->largest(), drafts_.capacity().levels);
  verified_.reserve(static_cast<std::size_t>(drafts_.capacity().verified) + 1);
  choices_.reserve(verified_.capacity());
}

DraftAndVerify::DraftAndVerify(LanguageModel& target, Drafter& drafter, int spec_length,
                               int context_limit)
    : DraftAndVerify(target, drafter, fixed_spec_length(spec_length), context_limit,
                     Drafts(spec_length, 0)) {}

DraftAndVerify::~DraftAndVerify() {
  target_.release(sequence_);
  drafter_.release(draft_sequence_);
}

void DraftAndVerify::prefill(std::span<const TokenId> prompt) {
  if (prompt.size() < 2) return;
  target_.forward(Segment{sequence_, prompt.first(prompt.size() - 1), 0}, {});
}

// [snippet draft-phase]
Round DraftAndVerify::draft(std::span<const TokenId> context, const Sampling& sampling) {
  Round round;
  round.start = target_.length(sequence_);
  SPECDEC_CHECK(std::ssize(context) == round.start + 1, "{} tokens cached and one pending",
                round.start);
  // [task 4.1: choose K and begin a round]
  const int K =
      round_spec_length(policy_->next(), round.start, context_limit_, drafter_.context_limit());
  drafts_.clear();
  if (K > 0) {
    const DraftRequest request{draft_sequence_, context, K, sampling, &drafts_, sequence_};
    drafter_.draft(std::span(&request, 1));
    SPECDEC_CHECK(drafts_.length() <= K, "at most {} drafts, not {}", K, drafts_.length());
  }
  round.drafted = drafts_.length();
  // [end task 4.1]
  return round;
}
// [end snippet draft-phase]

// [snippet verify]
void DraftAndVerify::verify(std::span<const TokenId> context) {
  choices_.clear();  // they belong to the previous round
  // [task 4.2: verify in one pass]
  const auto pending = uncached(target_, sequence_, context);
  verified_.assign(pending.begin(), pending.end());
  verified_.insert(verified_.end(), drafts_.tokens().begin(), drafts_.tokens().end());
  const Segment segment{sequence_, verified_, drafts_.size() + 1, drafts_.parents()};
  target_.forward(segment, logits_.rows(0, segment.logits_rows));
  // [end task 4.2]
}
// [end snippet verify]

TokenId DraftAndVerify::choice(int i) {
  if (choices_.empty()) {
    choices_.resize(static_cast<std::size_t>(drafts_.size()) + 1);
    target_.backend().argmax(logits_rows(drafts_.size() + 1), choices_);
  }
  const TokenId choice = choices_[i];
  if (choice < 0) fail_not_numbers();
  return choice;
}

// [snippet rollback]
void DraftAndVerify::roll_back(const Round& round) {
  // [task 4.4: roll the caches back]
  // Both caches may contain rejected drafts. (The last draft is in the target's cache only: the
  // draft model was never fed it.) The last emitted token is in neither cache: it is pending, and
  // the next round feeds it first.
  target_.truncate(sequence_, round.target_length());
  drafter_.truncate(draft_sequence_, round.draft_length());
  // [end task 4.4]
  policy_->learn(round);
}
// [end snippet rollback]

}  // namespace specdec
