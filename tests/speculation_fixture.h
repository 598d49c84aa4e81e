#pragma once
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/run_stats.h"
#include "common/speculation/count_round.h"
#include "stages/04_greedy_speculation/greedy_drafter.h"
#include "stages/04_greedy_speculation/greedy_speculation.h"
#include "stages/programs/run/request.h"
#include "tests/fresh_cache.h"
#include "tests/policy.h"
#include "tests/scripted_drafter.h"
#include "tests/table_model.h"
#include "tests/test_support.h"

namespace specdec {

// ---- models

// A target and a drafter on the draft's weights, which may be the target's own.
struct SpeculationPair {
  SpeculationPair(const LlamaModel& target_model, const LlamaModel& draft_model, int page_size,
                  int max_length)
      : target(target_model, page_size, max_length),
        draft(draft_model, page_size, max_length),
        drafter(draft.llama, max_length + 1) {}

  CachedLlama target, draft;
  GreedyDrafter drafter;
};

// A language model that knows one text by heart: after the text's first n tokens it says token n.
// After anything else it says kLost, so whoever shows it a wrong context finds out.
class Reciter {
 public:
  static constexpr TokenId kLost = 0;

  Reciter(std::vector<TokenId> text, int vocab_size, int max_seq_len = 1 << 20)
      : text_(std::move(text)),
        row_(static_cast<std::size_t>(vocab_size)),
        model_(
            vocab_size, [this](std::span<const TokenId> prefix) { return row(prefix); },
            max_seq_len) {}

  TableModel& model() { return model_; }
  const std::vector<TokenId>& text() const { return text_; }

 private:
  std::span<const float> row(std::span<const TokenId> prefix) {
    std::ranges::fill(row_, 0.f);
    const bool known =
        prefix.size() < text_.size() && std::equal(prefix.begin(), prefix.end(), text_.begin());
    row_[static_cast<std::size_t>(known ? text_[prefix.size()] : kLost)] = 1;
    return row_;
  }

  std::vector<TokenId> text_;
  std::vector<float> row_;  // [V]
  TableModel model_;
};

// Proposes how a text goes on, but for the positions that is_wrong names; a mistake behind its end.
inline ScriptedDrafter::Script text_with_mistakes(std::vector<TokenId> text, TokenId mistake,
                                                  std::function<bool(int position)> is_wrong) {
  return [=](std::span<const TokenId> context, int i) {
    const std::size_t position = context.size() + static_cast<std::size_t>(i);
    const bool wrong = position >= text.size() || is_wrong(static_cast<int>(position));
    return wrong ? mistake : text[position];
  };
}

// ---- requests and runs

// What is asked for, with the tokenizer that stop texts need.
struct Asked : GenerationRequest {
  std::optional<Tokenizer> tokenizer = {};

  const Tokenizer* tokenizer_or_null() const { return tokenizer ? &*tokenizer : nullptr; }
};

// Ids in, ids out.
inline Asked ids_request(std::vector<TokenId> prompt, int max_new_tokens,
                         std::vector<TokenId> eos_ids = {}) {
  Asked request;
  request.prompt = std::move(prompt);
  request.max_new_tokens = max_new_tokens;
  request.eos_ids = std::move(eos_ids);
  return request;
}

// With the embedded models' tokenizer: stop texts work.
inline Asked text_request(std::vector<TokenId> prompt, int max_new_tokens,
                          std::vector<std::string> stop = {}) {
  Asked request = ids_request(std::move(prompt), max_new_tokens);
  request.tokenizer = Tokenizer::load(golden_model("target") / "tokenizer.json");
  request.stop = std::move(stop);
  return request;
}

struct CheckedRound {
  Round round;
  std::vector<TokenId> drafts;              // as proposed
  int target_length = 0, draft_length = 0;  // as the models say after the rollback
};

struct Outcome {
  std::vector<TokenId> tokens;
  std::string text, streamed;
  FinishReason finish_reason = FinishReason::kLength;
  std::vector<CheckedRound> rounds;  // none of plain decoding
  RunStats stats;
};

inline void expect_same_text(const Outcome& got, const Outcome& want) {
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.text, want.text);
  EXPECT_EQ(got.streamed, want.streamed);
  EXPECT_EQ(got.finish_reason, want.finish_reason);
}

using AfterRound =
    std::function<void(const Round&, const DraftAndVerify&, std::span<const TokenId> context)>;
using AfterStep = std::function<void(ConstDeviceRows logits)>;  // [1, V]

inline void finish(Outcome& outcome, const Generation& generation) {
  outcome.tokens.assign(generation.tokens().begin(), generation.tokens().end());
  outcome.text = generation.text();
  const auto n = static_cast<int>(outcome.tokens.size());
  for (int i = 0; i < n; ++i) outcome.streamed += generation.text_of(i);
  outcome.finish_reason = generation.finish_reason();
}

// Stage 4's decode loop, with K = spec_length, or with one that adapts.
inline Outcome speculate_greedily(LanguageModel& target, Drafter& drafter, const Asked& request,
                                  int spec_length, int context_limit = 1 << 20,
                                  const AfterRound& after_round = {},
                                  const std::vector<double>& round_costs = {}) {
  Outcome outcome;
  Generation generation(request, request.tokenizer_or_null());
  DraftAndVerify steps(target, drafter, policy_of(spec_length, round_costs), context_limit,
                       Drafts(spec_length, 0));
  std::vector<TokenId> context = request.prompt;
  steps.prefill(context);
  while (!generation.finished()) {
    const Round round = greedy_round(steps, context, generation);
    count_round(outcome.stats, round);
    const auto drafts = steps.drafts().tokens();
    outcome.rounds.push_back({round,
                              {drafts.begin(), drafts.end()},
                              target.length(steps.sequence()),
                              drafter.length(steps.draft_sequence())});
    EXPECT_EQ(context.size(), request.prompt.size() + generation.tokens().size());
    EXPECT_TRUE(
        std::ranges::equal(std::span(context).subspan(request.prompt.size()), generation.tokens()))
        << "the context is the prompt and what was emitted";
    if (after_round) after_round(round, steps, context);
  }
  finish(outcome, generation);
  return outcome;
}

// Stage 3's decode loop.
inline Outcome decode_plainly(LanguageModel& target, const Asked& request,
                              const AfterStep& after_step = {}) {
  Outcome outcome;
  Generation generation(request, request.tokenizer_or_null());
  std::vector<TokenId> context = request.prompt;
  const LogitsBuffer logits(target, 1);
  const SequenceId sequence = target.create();
  while (!generation.finished()) {
    target.forward(Segment{sequence, uncached(target, sequence, context), 1}, logits.rows(0, 1));
    context.push_back(argmax(target.backend(), logits.rows(0, 1)));
    if (after_step) after_step(logits.rows(0, 1));
    generation.push(context.back());
  }
  target.release(sequence);
  finish(outcome, generation);
  return outcome;
}

// ---- what must come out

// The limits of a run, as a trace depends on them.
struct TraceLimits {
  int spec_length = 0;
  int context_limit = 1 << 20;
  int draft_context_limit = 1 << 20;
};

// The rounds that follow from where target and draft agree. agrees[n]: whether the draft, too,
// chooses token n of the text that comes out; the last of these tokens ends the text.
inline std::vector<Round> expected_rounds(int prompt_tokens, const std::vector<bool>& agrees,
                                          const TraceLimits& limits) {
  std::vector<Round> rounds;
  const int n_tokens = static_cast<int>(agrees.size());
  for (int emitted = 0; emitted < n_tokens;) {
    Round round;
    round.start = prompt_tokens - 1 + emitted;
    round.drafted = std::min(limits.spec_length, limits.context_limit - 1 - round.start);
    round.drafted = std::max(0, std::min(round.drafted, limits.draft_context_limit - round.start));
    const int left = n_tokens - emitted;
    while (round.accepted < std::min(round.drafted, left) &&
           agrees[static_cast<std::size_t>(emitted + round.accepted)]) {
      round.accepted++;
    }
    round.end = round.accepted == left            ? RoundEnd::kStopped
                : round.accepted == round.drafted ? RoundEnd::kAllAccepted
                                                  : RoundEnd::kRejected;
    emitted += round.accepted + (round.accepted < left ? 1 : 0);
    rounds.push_back(round);
  }
  return rounds;
}

// The rounds of a run, and the lengths of both caches after each of them, counted here without
// Round's own arithmetic.
inline void expect_rounds(const Outcome& outcome, const std::vector<Round>& want) {
  ASSERT_EQ(outcome.rounds.size(), want.size());
  int draft_length = 0;  // a plain step leaves it as it is
  for (std::size_t i = 0; i < want.size(); i++) {
    SCOPED_TRACE(fmt::format("round {}", i));
    const CheckedRound& got = outcome.rounds[i];
    const Round& round = want[i];
    if (round.drafted > 0) {
      const bool all = round.accepted == round.drafted;  // then the last draft was never fed
      draft_length = round.start + round.accepted + (all ? 0 : 1);
    }
    EXPECT_EQ(got.round.start, round.start);
    EXPECT_EQ(got.round.drafted, round.drafted);
    EXPECT_EQ(std::ssize(got.drafts), round.drafted);
    EXPECT_EQ(got.round.accepted, round.accepted);
    EXPECT_EQ(round_end_name(got.round.end), round_end_name(round.end));
    EXPECT_EQ(got.target_length, round.start + round.accepted + 1);
    EXPECT_EQ(got.draft_length, draft_length);
  }
}

}  // namespace specdec
