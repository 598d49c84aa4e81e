#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/sampling/random_source.h"
#include "common/speculation/round.h"
#include "common/speculation/spec_length_policy.h"
#include "kernels/int_size.h"
#include "stages/06_batched_verification/batch_request.h"

namespace specdec {

enum class Phase { kWaiting, kPrefilling, kRunning, kFinished };

inline std::string_view phase_name(Phase phase) {
  constexpr std::string_view kNames[] = {"waiting", "prefilling", "running", "finished"};
  return kNames[static_cast<int>(phase)];
}

// The state of a request in an engine. Its tokens depend on this state and its models alone, not on
// other requests.
//
// Invariants: context is the prompt and all emitted tokens. Waiting and finished requests have no
// sequences. While running, context.size() - 1 tokens are cached in the target, and the last token
// is pending. While prefilling, there are fewer, or the drafter lacks some of them.
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
                                   : fixed_spec_length(request.spec_length)),
        shape(request.make_shape ? request.make_shape() : nullptr),
        extension(request.make_extension ? request.make_extension() : nullptr) {}
  RequestState(const RequestState&) = delete;  // members point to each other
  RequestState& operator=(const RequestState&) = delete;

  int prompt_tokens() const { return int_size(request.generation.prompt); }
  // How its drafts are drawn.
  Sampling drafting() const {
    Sampling sampling = judge->drafting();
    sampling.gate = policy->gate();
    sampling.shape = shape.get();
    return sampling;
  }
  // Its round, for a judge. logits: [drafts.size() + 1, V], the round's rows of the pass.
  RoundToJudge to_judge(const Drafts& drafts, DeviceRows logits) {
    return {*judge, drafts, logits, context, generation, round, failure};
  }
  // The number of tokens that the target must have cached before the next round.
  int prefill_end() const { return int_size(context) - 1 + beside; }
  // The same for the drafter, which may also catch up in the round.
  int draft_prefill_end() const { return int_size(context) - 1; }
  std::span<const TokenId> new_tokens() const { return generation.tokens().subspan(delivered); }
  std::string_view new_text() const { return generation.certain_text().substr(delivered_text); }

  const RequestId id;
  const BatchRequest request;
  const OnDelivery on_delivery;
  Generation generation;
  std::vector<TokenId> context;
  Dice dice;
  const std::unique_ptr<Judge> judge;
  const std::unique_ptr<SpecLengthPolicy> policy;  // chooses K of each round
  const std::unique_ptr<DraftShape> shape;         // from stage 8 on; null: the drafter's own

  Phase phase = Phase::kWaiting;
  SequenceId sequence = kNoSequence;        // in the target
  SequenceId draft_sequence = kNoSequence;  // in the drafter, if its rounds have had drafts
  Round round;                              // the current or the last one
  bool cancelled = false;                   // delivers no more tokens, and ends in the next step
  std::optional<std::string> failure;       // the error that ends the request

  // Used from stage 10 on, where a request may have several texts. The context is then what they
  // begin with, and the target has more tokens cached beside it.
  const std::shared_ptr<RequestExtension> extension;  // null: one text
  int beside = 0;

  std::size_t delivered = 0, delivered_text = 0;  // tokens, and bytes of text, delivered so far
  RequestStats stats;
};

}  // namespace specdec
