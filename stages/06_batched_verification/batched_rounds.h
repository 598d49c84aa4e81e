#pragma once
#include <span>
#include <vector>

#include "common/language_model.h"
#include "common/speculation/drafter.h"
#include "stages/06_batched_verification/rounds.h"

namespace specdec {

// One pass of the target over rows of many requests: chunks of prompts, and pending tokens with
// what was drafted after them. It knows nothing of drafting or judging; with no drafts at all it is
// plain continuous batching.
class RaggedPass {
 public:
  // max_rows: of rounds, all requests together.
  RaggedPass(LanguageModel& target, int max_batch, int max_rows);

  void clear();
  // The request's next tokens that are not cached. REQUIRES: that many precede the last.
  void add_prefill(const Prefill& prefill);
  // The request's pending token and its drafts, all with logits.
  void add_round(const RequestState& request, std::span<const TokenId> drafts);
  // Computes everything that was added; throws, and then nothing has changed, as
  // LanguageModel::forward.
  void run();

  int rows(const RequestState& r) const { return rows_of(r.sequence, batch_); }  // of its round
  int round_rows() const { return static_cast<int>(tokens_.size()); }
  DeviceRows logits(int first, int count) const {
    return logits_.rows(first, count);
  }  // [count, V]

 private:
  LanguageModel& target_;
  std::vector<Segment> batch_;
  std::vector<TokenId> tokens_;  // of all rounds; its memory never moves
  LogitsBuffer logits_;          // [max_rows, V]
};

// A round before it is judged, with the rows that the pass computed for it.
struct RoundToJudge {
  RequestState* request = nullptr;
  const Drafts* drafts = nullptr;
  DeviceRows logits;  // [drafted + 1, V]
};

// Judges the rounds of a step: here each request's own judge, one after the other. What judges
// elsewhere, all at once, derives from it.
class BatchJudge {
 public:
  virtual ~BatchJudge() = default;

  // The memory in which it wants the drafts' distributions; null: the host's.
  virtual Backend* memory() const { return nullptr; }
  // An Error fails the request that caused it.
  virtual void judge(std::span<const RoundToJudge> rounds);
};

// Rounds of speculation for a batch (Leviathan et al., Algorithm 1, once for each request): the
// drafter proposes for all of them side by side, one ragged pass verifies, and each request accepts
// its own number of tokens by its own options and draws. A request without drafts takes a plain
// step.
class BatchedRounds final : public Rounds {
 public:
  // spec_length: the largest K of a request.
  // REQUIRES: target, drafter and judge outlive this object; the models' tokens are the same.
  BatchedRounds(LanguageModel& target, Drafter& drafter, BatchJudge& judge, int max_batch,
                int spec_length);

  int spec_length(const RequestState& request) const;  // K of the request's next round
  RoundNeeds needs(const RequestState& request) const override {
    return {.rows = spec_length(request) + 1, .drafted = spec_length(request)};
  }
  int most_rows() const override { return spec_length_ + 1; }
  MostCached most_cached(const BatchRequest& request) const override {
    return specdec::most_cached(request, drafter_.context_limit());
  }

  void draft(std::span<RequestState* const> batch) override;
  void verify(std::span<RequestState* const> batch, std::span<const Prefill> prefills) override;
  void judge(std::span<RequestState* const> batch) override;
  void roll_back(RequestState& request) override;
  void undo_draft(std::span<RequestState* const> batch) override;
  int rows(const RequestState& request) const override { return pass_.rows(request); }

  SequenceId create_draft() override { return drafter_.create(); }
  void release_draft(SequenceId sequence) override { drafter_.release(sequence); }
  int draft_length(SequenceId sequence) const override { return drafter_.length(sequence); }
  std::int64_t draft_forwards() const override { return drafter_.forwards(); }

  const RaggedPass& pass() const { return pass_; }

 private:
  LanguageModel& target_;
  Drafter& drafter_;
  BatchJudge& judge_;
  int spec_length_;
  std::vector<Drafts> drafts_;  // [max_batch]
  std::vector<DraftRequest> requests_;
  std::vector<RequestState*> drafting_;  // whose they are
  RaggedPass pass_;
  std::vector<RoundToJudge> rounds_;
};

}  // namespace specdec
