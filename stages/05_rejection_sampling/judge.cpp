#include "stages/05_rejection_sampling/judge.h"

#include <algorithm>
#include <utility>

#include "common/argmax.h"
#include "common/base/error.h"

namespace specdec {
namespace {

AcceptanceRule rule_of(const SpeculationOptions& options) {
  if (options.lenience == 1) return options.rule->rule;
  return lenient_rule(options.sampling.temperature).rule;
}

// sum min(p, q): the probability that rejection() accepts a draft.
double acceptance_prob(const Proposal& draft) {
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
    fail("--lenience belongs to --acceptance {}, not to {}", acceptance_rules().front().name,
         options.rule->name);
  }
}

JudgingScratch::JudgingScratch(int drafts, int vocab_size)
    : logits(static_cast<std::size_t>(vocab_size)),
      target_probs(logits.size() * static_cast<std::size_t>(drafts + 1)),
      residual(logits.size()),
      sampling(vocab_size) {}

Judge::Judge(Backend& backend, RandomSource& random, const SpeculationOptions& options,
             std::shared_ptr<JudgingScratch> scratch)
    : backend_(backend),
      random_(random),
      options_(options),
      shared_scratch_(std::move(scratch)),
      scratch_(*shared_scratch_),
      rule_(rule_of(options)),
      judging_(rule_ == lenient_argmax ? before_argmax(options.sampling) : options.sampling) {
  check_speculation_options(options);
  drafting_ = {options.sampling, &random, options.rule->races};
  drafting_.options.temperature = options.draft_temperature;
}

// [snippet judge]
void Judge::judge(const Drafts& drafts, DeviceRows logits, std::vector<TokenId>& context,
                  Generation& generation, Round& round) {
  // [task 5.4: judge a round]
  round.end = RoundEnd::kStopped;
  while (!generation.finished()) {
    const auto position = static_cast<int>(context.size());
    const std::span<const double> target_probs = standardise(logits, round.accepted, context);
    if (round.accepted == round.drafted) {  // the bonus: the target's own token
      context.push_back(draw(target_probs, position));
      generation.push(context.back());
      round.end = RoundEnd::kAllAccepted;
      break;
    }
    const Proposal proposal{position, drafts.token(round.accepted), target_probs,
                            drafts.probs(round.accepted), options_.lenience};
    const Decision decision = rule_(proposal, random_, scratch_.residual);
    round.sum_acceptance_prob += acceptance_prob(proposal);
    context.push_back(decision.token);  // the draft, or the correction
    generation.push(decision.token);
    if (!decision.accepted) {
      round.end = RoundEnd::kRejected;
      break;
    }
    round.accepted++;
  }
  // [end task 5.4]
}
// [end snippet judge]

// [snippet standardise]
// Turns a row of logits into the target's distribution (section 2.2). The history contains every
// token before the position, including the drafts accepted in this round.
std::span<const double> Judge::standardise(DeviceRows logits, int row,
                                           std::span<const TokenId> history) {
  // [task 5.1: make the distribution that judges]
  const std::size_t V = scratch_.logits.size();
  const auto probs = std::span(scratch_.target_probs).subspan(static_cast<std::size_t>(row) * V, V);
  backend_.download(logits.row(row), scratch_.logits.data(), V * sizeof(float));
  probabilities(scratch_.logits, history, judging_, scratch_.sampling, probs);
  return probs;
  // [end task 5.1]
}
// [end snippet standardise]

// Draws the target's own token: in plain sampling, and for the bonus.
TokenId Judge::draw(std::span<const double> target_probs, int position) {
  if (rule_ == lenient_argmax) {
    return argmax(target_probs);
  }
  if (options_.rule->races) return random_.race(target_probs, position);
  return random_.token(target_probs, position, Purpose::kTarget);
}

std::span<const double> Judge::target_probs(int i) const {
  const std::size_t V = scratch_.logits.size();
  return std::span(scratch_.target_probs).subspan(static_cast<std::size_t>(i) * V, V);
}

TokenId Judge::plain_choice(DeviceRows logits, std::span<const TokenId> context) {
  return draw(standardise(logits, 0, context), static_cast<int>(context.size()));
}

}  // namespace specdec
