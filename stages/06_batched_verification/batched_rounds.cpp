#include "stages/06_batched_verification/batched_rounds.h"

#include "common/base/check.h"

namespace specdec {

RaggedPass::RaggedPass(LanguageModel& target, int max_batch, int max_rows)
    : target_(target), logits_(target, max_rows) {
  batch_.reserve(static_cast<std::size_t>(max_batch));
  tokens_.reserve(static_cast<std::size_t>(max_rows));
}

void RaggedPass::clear() {
  batch_.clear();
  tokens_.clear();
}

// [snippet ragged-pass]
void RaggedPass::add_prefill(const Prefill& prefill) {
  const RequestState& r = *prefill.request;
  const auto left = uncached(target_, r.sequence, r.context);
  SPECDEC_CHECK(prefill.tokens < std::ssize(left), "{} of {} tokens", prefill.tokens, left.size());
  batch_.push_back({r.sequence, left.first(static_cast<std::size_t>(prefill.tokens)), 0});
}

void RaggedPass::add_round(const RequestState& r, std::span<const TokenId> drafts) {
  // [task 6.1: give a round its rows of the pass]
  const std::size_t first = tokens_.size(), n = drafts.size() + 1;
  SPECDEC_CHECK(first + n <= tokens_.capacity(), "at most {} rows", tokens_.capacity());
  tokens_.push_back(r.context.back());  // pending
  tokens_.insert(tokens_.end(), drafts.begin(), drafts.end());
  batch_.push_back({r.sequence, std::span(tokens_).subspan(first, n), static_cast<int>(n)});
  // [end task 6.1]
}

void RaggedPass::run() {
  if (!batch_.empty()) target_.forward(batch_, logits_.rows(0, round_rows()));
}
// [end snippet ragged-pass]

BatchedRounds::BatchedRounds(LanguageModel& target, Drafter& drafter, int max_batch,
                             int spec_length)
    : target_(target),
      drafter_(drafter),
      drafts_(make_drafts(max_batch, spec_length, target.vocab_size(),
                          sampling_device(target.backend()))),
      pass_(target, max_batch, max_batch * (spec_length + 1)),
      scratch_(target.backend(), spec_length, target.vocab_size(), max_batch,
               max_batch * target.max_seq_len()),
      verdicts_(drafts_.size()) {
  requests_.reserve(drafts_.size());
  drafting_.reserve(drafts_.size());
  drafted_.reserve(drafts_.size());
}

int BatchedRounds::spec_length(const RequestState& r) const {
  return round_spec_length(r.policy ? r.policy->next() : r.request.spec_length, r.prefill_end(),
                           r.request.context_limit, drafter_.context_limit());
}

// [snippet batched-draft]
void BatchedRounds::draft(std::span<RequestState* const> batch) {
  // [task 6.2: draft for all requests]
  requests_.clear();
  drafting_.clear();
  for (std::size_t i = 0; i < batch.size(); i++) {
    RequestState& r = *batch[i];
    r.round = {.start = target_.length(r.sequence)};
    SPECDEC_CHECK(r.round.start == r.prefill_end(), "all but the pending token is cached");
    drafts_[i].clear();
    const int K = spec_length(r);
    if (K == 0) continue;
    requests_.push_back({r.draft_sequence, r.context, K, r.judge.drafting(), &drafts_[i]});
    drafting_.push_back(&r);
  }
  // [end task 6.2]
  try {
    if (!requests_.empty()) drafter_.draft(requests_);
  } catch (const CacheFull&) {
    throw;
  } catch (const Error&) {  // logits that are no numbers, but whose?
    draft_one_by_one();
  }
  for (std::size_t i = 0; i < batch.size(); i++) batch[i]->round.drafted = drafts_[i].size();
}
// [end snippet batched-draft]

// Draws have no order, so what is drafted a second time is the same.
void BatchedRounds::draft_one_by_one() {
  undo_draft(drafting_);
  for (std::size_t i = 0; i < requests_.size(); i++) {
    try {
      drafter_.draft(std::span(requests_).subspan(i, 1));
    } catch (const CacheFull&) {
      throw;
    } catch (const Error& error) {
      drafting_[i]->failure = error.what();
    }
  }
}

void BatchedRounds::undo_draft(std::span<RequestState* const> batch) {
  for (RequestState* r : batch) {
    if (r->draft_sequence == RequestState::kNoSequence) continue;
    drafter_.truncate(r->draft_sequence, r->prefill_end());
  }
}

// [snippet batched-verify]
void BatchedRounds::verify(std::span<RequestState* const> batch,
                           std::span<const Prefill> prefills) {
  pass_.clear();
  for (std::size_t i = 0; i < batch.size(); i++) {
    if (!batch[i]->failure) pass_.add_round(*batch[i], drafts_[i].tokens());
  }
  for (const Prefill& prefill : prefills) pass_.add_prefill(prefill);
  pass_.run();
}
// [end snippet batched-verify]

// [snippet batched-judge]
// Each request looks at its own rows only: those of its pending token and its drafts.
void BatchedRounds::judge(std::span<RequestState* const> batch) {
  if (scratch_.sampler) return judge_on_device(batch);
  // [task 6.3: judge each request by its own rows]
  int row = 0;
  for (std::size_t i = 0; i < batch.size(); i++) {
    RequestState& r = *batch[i];
    if (r.failure) continue;
    const int rows = r.round.drafted + 1;
    try {
      r.judge.judge(drafts_[i], pass_.logits(row, rows), r.context, r.generation, r.round);
    } catch (const Error& error) {
      r.failure = error.what();
    }
    row += rows;
  }
  // [end task 6.3]
}

void BatchedRounds::roll_back(RequestState& r) {
  if (r.policy) r.policy->learn(r.round);
  target_.truncate(r.sequence, r.round.target_length());
  if (r.draft_sequence == RequestState::kNoSequence) return;
  drafter_.truncate(r.draft_sequence, r.round.draft_length());
}
// [end snippet batched-judge]

// [snippet batched-judge-on-device]
// judge() on a GPU: one verdict for all requests, then each emits its own tokens.
void BatchedRounds::judge_on_device(std::span<RequestState* const> batch) {
  drafted_.clear();
  int row = 0, drafts = 0;
  for (std::size_t i = 0; i < batch.size(); i++) {
    RequestState& r = *batch[i];
    if (r.failure) continue;
    const int rows = r.round.drafted + 1;
    drafted_.push_back(r.judge.drafted_round(drafts_[i], pass_.logits(row, rows), r.context));
    row += rows;
    drafts += r.round.drafted;
  }
  auto overlaps = std::span(scratch_.overlaps).first(static_cast<std::size_t>(drafts));
  scratch_.sampler->judge(drafted_, std::span(verdicts_).first(drafted_.size()), overlaps);
  std::size_t judged = 0;
  for (std::size_t i = 0; i < batch.size(); i++) {
    RequestState& r = *batch[i];
    if (r.failure) continue;
    const auto n_drafts = static_cast<std::size_t>(r.round.drafted);
    try {
      r.judge.emit(verdicts_[judged++], overlaps.first(n_drafts), drafts_[i], r.context,
                   r.generation, r.round);
    } catch (const Error& error) {
      r.failure = error.what();
    }
    overlaps = overlaps.subspan(n_drafts);
  }
}
// [end snippet batched-judge-on-device]

}  // namespace specdec
