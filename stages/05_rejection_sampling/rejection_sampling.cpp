#include "stages/05_rejection_sampling/rejection_sampling.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/error.h"

namespace specdec {
namespace {

// What appendix A.5's lenience for argmax looks at: p before it becomes the argmax's one-hot.
SamplingOptions before_argmax(const SamplingOptions& options) {
  return {.temperature = 1, .repetition_penalty = options.repetition_penalty};
}

AcceptanceRule rule_of(const SpeculationOptions& options) {
  if (options.lenience == 1) return options.rule->rule;
  return options.sampling.temperature == 0 ? lenient_argmax : lenient;
}

// sum min(p, q): how likely rejection() is to keep a draft.
double overlap(const Proposal& draft) {
  if (draft.draft_probs.empty()) return draft.target_prob(draft.token);
  double sum = 0;
  for (std::size_t i = 0; i < draft.target_probs.size(); i++) {
    sum += std::min(draft.target_probs[i], draft.draft_probs[i]);
  }
  return sum;
}

}  // namespace

void check_speculation_options(const SpeculationOptions& options) {
  check_sampling_options(options.sampling);
  check_temperature(options.draft_temperature, "--draft-temperature");
  if (!(options.lenience > 0 && options.lenience <= 1)) {
    fail("--lenience is {}; it takes a number above 0 and at most 1 (1: none)", options.lenience);
  }
  if (options.lenience < 1 && options.rule->rule != rejection) {
    fail("--lenience belongs to --acceptance rejection, not to {}", options.rule->name);
  }
}

RejectionSampling::RejectionSampling(DraftAndVerify& steps, Chance& chance,
                                     const SpeculationOptions& options)
    : steps_(steps),
      chance_(chance),
      options_(options),
      rule_(rule_of(options)),
      judging_(rule_ == lenient_argmax ? before_argmax(options.sampling) : options.sampling),
      drafting_{options.sampling, &chance, options.rule->races},
      host_logits_(static_cast<std::size_t>(steps.target().vocab_size())),
      target_probs_(host_logits_.size() * static_cast<std::size_t>(steps.spec_length() + 1)),
      scratch_(host_logits_.size()),
      sampling_scratch_(steps.target().vocab_size()) {
  check_speculation_options(options);
  drafting_.options.temperature = options.draft_temperature;
}

// [snippet round]
Round RejectionSampling::round(std::vector<TokenId>& context, Generation& generation) {
  Round round = steps_.draft(context, drafting_);
  steps_.verify(context);

  round.end = RoundEnd::kStopped;
  while (!generation.finished()) {
    const auto position = static_cast<int>(context.size());
    const std::span<const double> target_probs = standardise(round.accepted, context);
    if (round.accepted == round.drafted) {  // the bonus: a token of the target's own
      context.push_back(draw(target_probs, position));
      generation.push(context.back());
      round.end = RoundEnd::kAllAccepted;
      break;
    }
    const Proposal proposal{position, steps_.drafts().token(round.accepted), target_probs,
                            steps_.drafts().probs(round.accepted), options_.lenience};
    const Decision decision = rule_(proposal, chance_, scratch_);
    round.overlap += overlap(proposal);
    context.push_back(decision.token);  // the draft, or the correction
    generation.push(decision.token);
    if (!decision.accepted) {
      round.end = RoundEnd::kRejected;
      break;
    }
    round.accepted++;
  }

  steps_.roll_back(round);
  return round;
}
// [end snippet round]

// [snippet standardise]
// From a row of logits to the distribution that judges (section 2.2). The history is everything
// before the token, the drafts accepted in this round among it.
std::span<const double> RejectionSampling::standardise(int row, std::span<const TokenId> history) {
  const std::size_t V = host_logits_.size();
  const auto probs = std::span(target_probs_).subspan(static_cast<std::size_t>(row) * V, V);
  steps_.target().backend().download(steps_.logits(row).row(0), host_logits_.data(),
                                     V * sizeof(float));
  probabilities(host_logits_, history, judging_, sampling_scratch_, probs);
  return probs;
}
// [end snippet standardise]

// A token of the target's own: plain sampling, and the bonus.
TokenId RejectionSampling::draw(std::span<const double> target_probs, int position) {
  if (rule_ == lenient_argmax) {
    return static_cast<TokenId>(std::ranges::max_element(target_probs) - target_probs.begin());
  }
  if (options_.rule->races) return chance_.race(target_probs, position);
  return chance_.token(target_probs, position, Purpose::kTarget);
}

std::span<const double> RejectionSampling::target_probs(int i) const {
  const std::size_t V = host_logits_.size();
  return std::span(target_probs_).subspan(static_cast<std::size_t>(i) * V, V);
}

TokenId RejectionSampling::plain_choice(std::span<const TokenId> context) {
  return draw(standardise(0, context), static_cast<int>(context.size()));
}

std::string_view RejectionSampling::rule_name() const {
  return options_.lenience < 1 ? "lenient" : options_.rule->name;
}

RoundEvidence RejectionSampling::evidence(std::uint64_t seed) const {
  const bool random = options_.sampling.temperature > 0 || options_.draft_temperature > 0;
  return {.drafts = &steps_.drafts(),
          .target_probs = [this](int i) { return target_probs(i); },
          .seed = random ? std::optional(seed) : std::nullopt,
          .tests_by_uniform = options_.rule->tests_by_uniform,
          .races = options_.rule->races,
          .corrects_by_residual = options_.rule->corrects_by_residual && rule_ != lenient_argmax,
          .correction = options_.rule->correction};
}

}  // namespace specdec
