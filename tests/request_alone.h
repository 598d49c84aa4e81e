#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/run_stats.h"
#include "common/speculation/count_round.h"
#include "stages/04_greedy_speculation/greedy_speculation.h"
#include "stages/05_rejection_sampling/rejection_sampling.h"
#include "stages/06_batched_verification/batch_request.h"
#include "tests/engine_fixture.h"

// One request without an engine, to which the same request in a batch is compared.
namespace specdec::batch {

// What a request comes to. rows[i]: the logits [V] that decided token i.
struct Outcome {
  std::vector<TokenId> tokens;
  std::string text;
  std::optional<FinishReason> finish_reason;
  HostRows rows;
  std::vector<Round> rounds;
  RunStats stats;
};

// A decode loop. make_round(context, generation): of one of the stages.
template <typename MakeRound>
Outcome run_alone(DraftAndVerify& steps, const BatchRequest& request, const Tokenizer* tokenizer,
                  MakeRound&& make_round) {
  Outcome outcome;
  Generation generation(request.generation, tokenizer);
  std::vector<TokenId> context = request.generation.prompt;
  steps.prefill(context);
  while (!generation.finished()) {
    const Round round = make_round(context, generation);
    for (int i = 0; i < round.emitted(); i++) {
      outcome.rows.push_back(to_host(steps.target().backend(), steps.logits(round.row_of(i))));
    }
    outcome.rounds.push_back(round);
    count_round(outcome.stats, round);
  }
  outcome.tokens.assign(generation.tokens().begin(), generation.tokens().end());
  outcome.text = generation.text();
  outcome.finish_reason = generation.finish_reason();
  return outcome;
}

inline int context_limit(const LanguageModel& target, const BatchRequest& request) {
  return request.context_limit > 0 ? request.context_limit : target.max_seq_len();
}

inline std::unique_ptr<SpecLengthPolicy> policy_of(const BatchRequest& request) {
  return request.make_policy ? request.make_policy() : fixed_spec_length(request.spec_length);
}

// Stage 5. With K = 0 it is plain decoding.
inline Outcome run_alone(LanguageModel& target, Drafter& drafter, const BatchRequest& request,
                         const Tokenizer* tokenizer = nullptr) {
  DraftAndVerify steps(target, drafter, policy_of(request), context_limit(target, request),
                       Drafts(request.spec_length, target.vocab_size()));
  Dice dice(request.seed);
  const auto judge = make_judge(steps, dice, request.speculation);
  return run_alone(steps, request, tokenizer, [&](auto& context, auto& generation) {
    return sampled_round(steps, *judge, context, generation);
  });
}

// Stage 4. REQUIRES: neither model samples, and there are no penalties.
inline Outcome run_alone_greedily(LanguageModel& target, Drafter& drafter,
                                  const BatchRequest& request,
                                  const Tokenizer* tokenizer = nullptr) {
  DraftAndVerify steps(target, drafter, policy_of(request), context_limit(target, request),
                       Drafts(request.spec_length, 0));
  return run_alone(steps, request, tokenizer, [&](auto& context, auto& generation) {
    return greedy_round(steps, context, generation);
  });
}

inline bool is_plainly_greedy(const BatchRequest& request) {
  const SpeculationOptions& options = request.speculation;
  return options.sampling.temperature == 0 && options.sampling.repetition_penalty == 1 &&
         options.draft_temperature == 0 && options.lenience == 1;
}

// The same tokens from the same rows. Of two cuts of one text that may have other rounds.
inline void expect_same_tokens(const Outcome& got, const Outcome& want) {
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.text, want.text);
  EXPECT_EQ(got.finish_reason, want.finish_reason);
  EXPECT_TRUE(std::ranges::equal(got.rows, want.rows, equal_bits))
      << "a token was decided by other logits, to the bit";
}

inline bool same_round(const Round& a, const Round& b) {
  return a.start == b.start && a.drafted == b.drafted && a.accepted == b.accepted &&
         a.end == b.end && a.sum_acceptance_prob == b.sum_acceptance_prob;
}

inline void expect_same_counts(const RunStats& got, const RunStats& want) {
  EXPECT_EQ(got.rounds, want.rounds);
  EXPECT_EQ(got.counted, want.counted);
  EXPECT_EQ(got.drafted, want.drafted);
  EXPECT_EQ(got.tested, want.tested);
  EXPECT_EQ(got.accepted, want.accepted);
  EXPECT_EQ(got.emitted, want.emitted);
  EXPECT_EQ(got.drafted_rounds, want.drafted_rounds);
  EXPECT_EQ(got.sum_round_acceptance, want.sum_round_acceptance);
  EXPECT_EQ(got.sum_acceptance_prob, want.sum_acceptance_prob);
  EXPECT_EQ(got.accepted_at, want.accepted_at);
  EXPECT_EQ(got.drafted_at, want.drafted_at);
  EXPECT_EQ(got.rounds_by_drafted, want.rounds_by_drafted);
}

}  // namespace specdec::batch
