#include "stages/06_batched_verification/batched_rounds.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/speculation/round.h"

namespace specdec {

RaggedPass::RaggedPass(LanguageModel& target, int max_batch, int max_rows)
    : target_(target), logits_(target, max_rows) {
  batch_.reserve(max_batch);
  tokens_.reserve(max_rows);
}

void RaggedPass::clear() {
  batch_.clear();
  tokens_.clear();
  added_rows_ = 0;
}

// [snippet ragged-pass]
void RaggedPass::add_prefill(const Prefill& prefill) {
  const RequestState& r = *prefill.request;
  const auto left = uncached(target_, r.sequence, r.context);
  SPECDEC_CHECK(prefill.tokens < std::ssize(left),
                "{} tokens to be fewer than the {} that are left", prefill.tokens, left.size());
  batch_.push_back({r.sequence, left.first(prefill.tokens), 0});
}

void RaggedPass::add_round(const RequestState& r, const Drafts& drafts) {
  // [task 6.1: give a round its rows of the pass]
  const std::size_t first = tokens_.size(), n = drafts.tokens().size() + 1;
  SPECDEC_CHECK(first + n <= tokens_.capacity(), "at most {} rows", tokens_.capacity());
  tokens_.push_back(r.context.back());  // pending
  tokens_.insert(tokens_.end(), drafts.tokens().begin(), drafts.tokens().end());
  batch_.push_back(
      {r.sequence, std::span(tokens_).subspan(first, n), static_cast<int>(n), drafts.parents()});
  // [end task 6.1]
}

void RaggedPass::run() {
  if (!batch_.empty()) target_.forward(batch_, logits_.rows(0, round_rows()));
}
// [end snippet ragged-pass]

void RaggedPass::add(const Segment& segment) {
  batch_.push_back(segment);
  added_rows_ += segment.logits_rows;
}

int RaggedPass::rows(const RequestState& r) const {
  const auto segment = std::ranges::find(batch_, r.sequence, &Segment::sequence);
  return segment == batch_.end() ? 0 : segment->logits_rows;
}

std::unique_ptr<Judge> make_own_judge(Backend& backend, RandomSource& random,
                                      const SpeculationOptions& options,
                                      const std::shared_ptr<JudgingScratch>& scratch) {
  return std::make_unique<Judge>(backend, random, options, scratch);
}

void judge_each(std::span<const RoundToJudge> rounds) {
  for (const RoundToJudge& r : rounds) {
    try {
      r.judge.judge(r.drafts, r.logits, r.context, r.generation, r.round);
    } catch (const Error& error) {
      r.failure = error.what();
    }
  }
}

std::unique_ptr<BatchedRounds> make_batched_rounds(LanguageModel& target, Drafter& drafter,
                                                   const Judging& judging, int max_batch,
                                                   int spec_length) {
  return std::make_unique<BatchedRounds>(target, drafter, judging, max_batch, spec_length);
}

BatchedRounds::BatchedRounds(LanguageModel& target, Drafter& drafter, Judging judging,
                             int max_batch, int spec_length, int max_rows)
    : target_(target),
      drafter_(drafter),
      judging_(std::move(judging)),
      most_rows_(drafter.capacity(spec_length).rows()),
      drafts_(make_drafts(max_batch, drafter.capacity(spec_length), target.vocab_size(),
                          judging_.memory)),
      pass_(target, max_batch, max_rows > 0 ? max_rows : max_batch * most_rows_) {
  requests_.reserve(drafts_.size());
  chunks_.reserve(drafts_.size());
  drafting_.reserve(drafts_.size());
  rounds_.reserve(drafts_.size());
}

int BatchedRounds::spec_length(const RequestState& r) const {
  return round_spec_length(r.policy->next(), r.prefill_end(), r.request.context_limit,
                           drafter_.context_limit());
}

MostCached BatchedRounds::most_cached(const BatchRequest& request) const {
  return specdec::most_cached(
      request, [this](int K) { return drafter_.capacity(K); }, drafter_.context_limit());
}

// The last round begins when all tokens but one are in the text. It may have fewer drafts than
// earlier rounds, because a context ends (see round_spec_length()), so the loop tries those, too.
MostCached most_cached(const BatchRequest& r, const RoundCapacity& capacity,
                       int draft_context_limit) {
  const std::int64_t first = std::ssize(r.generation.prompt) - 1;
  const std::int64_t last = first + r.generation.max_new_tokens - 1;
  const std::int64_t last_drafting =
      std::min<std::int64_t>({last, r.context_limit - 2, draft_context_limit - 1});
  MostCached most{last + 1, 0};
  for (std::int64_t start = std::max(first, last_drafting - r.spec_length); start <= last_drafting;
       start++) {
    const int K = round_spec_length(r.spec_length, static_cast<int>(start), r.context_limit,
                                    draft_context_limit);
    if (K == 0) continue;
    const Capacity round = r.capacity ? r.capacity(K) : capacity(K);
    most.by_target = std::max(most.by_target, start + round.rows());
    most.by_draft = std::max(most.by_draft, start + round.nodes);
  }
  return most;
}

namespace {

// Drafts for one request after another, so that an Error fails only the request that caused it.
// Called after drafting for all of them threw and was undone. Random draws are keyed, so the second
// drafts are the same as the first. whose[i]: the engine's request for which requests[i] drafts.
void draft_one_by_one(Drafter& drafter, std::span<const DraftRequest> requests,
                      std::span<RequestState* const> whose) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    try {
      drafter.draft(requests.subspan(i, 1));
    } catch (const CacheFull&) {
      throw;
    } catch (const Error& error) {
      whose[i]->failure = error.what();
    }
  }
}

}  // namespace

// [snippet batched-draft]
void BatchedRounds::draft(std::span<RequestState* const> batch) {
  // [task 6.2: draft for all requests]
  requests_.clear();
  drafting_.clear();
  for (std::size_t i = 0; i < batch.size(); i++) {
    RequestState& r = *batch[i];
    r.round = {.start = target_.length(r.sequence)};
    SPECDEC_CHECK(r.round.start == r.prefill_end(), "all but the pending token to be cached");
    drafts_[i].clear();
    const int K = spec_length(r);
    if (K == 0) continue;
    requests_.push_back({r.draft_sequence, r.context, K, r.drafting(), &drafts_[i], r.sequence});
    drafting_.push_back(&r);
  }
  // [end task 6.2]
  try {
    if (!requests_.empty()) drafter_.draft(requests_);
  } catch (const CacheFull&) {
    throw;
  } catch (const Error&) {  // logits are not numbers: find the request that caused this
    undo_draft(drafting_);
    draft_one_by_one(drafter_, requests_, drafting_);
  }
  for (std::size_t i = 0; i < batch.size(); i++) batch[i]->round.drafted = drafts_[i].length();
}
// [end snippet batched-draft]

int BatchedRounds::draft_prefill_left(const RequestState& r) const {
  if (r.draft_sequence == RequestState::kNoSequence) return 0;
  return drafter_.uncached_before(r.draft_sequence, r.draft_prefill_end());
}

bool BatchedRounds::is_prefilled(const RequestState& r) const {
  return target_.length(r.sequence) == r.prefill_end() && draft_prefill_left(r) == 0;
}

// [snippet prefill-drafts]
// The draft model reads its chunks of the prompts in one pass.
void BatchedRounds::prefill_drafts(std::span<const Prefill> prefills) {
  chunks_.clear();
  for (const Prefill& prefill : prefills) {
    if (prefill.draft_tokens == 0) continue;
    const RequestState& r = *prefill.request;
    const int cached = r.draft_prefill_end() - draft_prefill_left(r);
    chunks_.push_back(
        {r.draft_sequence, std::span(r.context).subspan(cached, prefill.draft_tokens), 0});
  }
  if (!chunks_.empty()) drafter_.prefill(chunks_);
}
// [end snippet prefill-drafts]

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
    if (!batch[i]->failure) pass_.add_round(*batch[i], drafts_[i]);
  }
  for (const Prefill& prefill : prefills) {
    if (prefill.tokens > 0) pass_.add_prefill(prefill);
  }
  pass_.run();
}
// [end snippet batched-verify]

// [snippet batched-judge]
// Judges each request by its own rows only: those after its pending token and its drafts.
void BatchedRounds::judge(std::span<RequestState* const> batch) {
  rounds_.clear();
  // [task 6.3: judge each request by its own rows]
  int row = 0;
  for (std::size_t i = 0; i < batch.size(); i++) {
    if (batch[i]->failure) continue;
    const int rows = drafts_[i].size() + 1;
    rounds_.push_back(batch[i]->to_judge(drafts_[i], pass_.logits(row, rows)));
    row += rows;
  }
  // [end task 6.3]
  judging_.judge(rounds_);
}

void BatchedRounds::roll_back(RequestState& r) {
  r.policy->learn(r.round);
  judging_.roll_back(r.round, {target_, r.sequence, drafter_, r.draft_sequence});
}

void truncate_caches(const Round& round, const RoundCaches& caches) {
  caches.target.truncate(caches.sequence, round.target_length());
  if (caches.draft_sequence == RequestState::kNoSequence) return;
  caches.drafter.truncate(caches.draft_sequence, round.draft_length());
}
// [end snippet batched-judge]

}  // namespace specdec
