#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/sampling/random_source.h"
#include "common/speculation/round.h"
#include "common/speculation/spec_length_policy.h"
#include "stages/06_batched_verification/batch_request.h"

namespace specdec {

enum class Phase { kWaiting, kPrefilling, kRunning, kFinished };

inline std::string_view phase_name(Phase phase) {
  constexpr std::string_view kNames[] = {"waiting", "prefilling", "running", "finished"};
  return kNames[static_cast<int>(phase)];
}

// A request on its way through an engine. Everything that its tokens depend on is here, and nothing
// of any other request.
//
// Invariants: context is the prompt and all tokens emitted. Waiting and finished requests have no
// sequences. While prefilling, fewer than context.size() - 1 tokens are cached in the target;
// while running, exactly that many, and the last token is pending.
struct RequestState {
  static constexpr SequenceId kNoSequence = -1;

  // Makes the request's judge, which draws from these dice.
  using MakeJudge =
      std::function<std::unique_ptr<Judge>(RandomSource& dice, const SpeculationOptions& options)>;

  RequestState(RequestId id_, BatchRequest request_, OnDelivery on_delivery_,
               const Tokenizer* tokenizer, const MakeJudge& make_judge)
      : id(id_),
        request(std::move(request_)),
        on_delivery(std::move(on_delivery_)),
        generation(request.generation, tokenizer),
        context(request.generation.prompt),
        dice(request.seed),
        judge(make_judge(dice, request.speculation)),
        policy(request.make_policy ? request.make_policy()
                                   : fixed_spec_length(request.spec_length)) {}
  RequestState(const RequestState&) = delete;  // its parts point to each other
  RequestState& operator=(const RequestState&) = delete;

  int prompt_tokens() const { return static_cast<int>(request.generation.prompt.size()); }
  // What its drafts are drawn with.
  Sampling drafting() const {
    Sampling sampling = judge->drafting();
    sampling.gate = policy->gate();
    return sampling;
  }
  // Its round, whose drafts got these rows of logits.
  RoundToJudge to_judge(const Drafts& drafts, DeviceRows logits) {
    return {*judge, drafts, logits, context, generation, round, failure};
  }
  // What the target has cached when the next round may begin.
  int prefill_end() const { return static_cast<int>(context.size()) - 1; }
  std::span<const TokenId> new_tokens() const { return generation.tokens().subspan(delivered); }
  std::string_view new_text() const { return generation.certain_text().substr(delivered_text); }

  const RequestId id;
  const BatchRequest request;
  const OnDelivery on_delivery;
  Generation generation;
  std::vector<TokenId> context;
  Dice dice;
  const std::unique_ptr<Judge> judge;
  const std::unique_ptr<SpecLengthPolicy> policy;  // K of each of its rounds

  Phase phase = Phase::kWaiting;
  SequenceId sequence = kNoSequence;        // of the target
  SequenceId draft_sequence = kNoSequence;  // of the drafter, from the first round with drafts on
  Round round;                              // the present one, or the last
  bool cancelled = false;                   // from now on
  std::optional<std::string> failure;       // it ends by an error

  std::size_t delivered = 0, delivered_text = 0;  // tokens, and bytes, that were handed over
  RequestStats stats;
};

}  // namespace specdec
