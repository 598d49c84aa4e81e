#include "stages/programs/sampling/device_judge.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/sampling/device_sampling.h"

namespace specdec {

Overlaps overlaps_for(const RunOptions& options) {
  return options.wants_json() ? Overlaps::kCounted : Overlaps::kNotCounted;
}

DeviceJudge::DeviceJudge(Backend& backend, RandomSource& random, const SpeculationOptions& options,
                         JudgingScratch& scratch, int spec_length, int vocab_size, int history,
                         Overlaps overlaps)
    : Judge(backend, random, options, scratch),
      sampler_(backend.make_sampler(
          {.vocab_size = vocab_size, .rows = spec_length + 1, .rounds = 1, .history = history})),
      probs_(backend, static_cast<std::size_t>(vocab_size)),
      acceptance_probs_(overlaps == Overlaps::kCounted ? static_cast<std::size_t>(spec_length)
                                                       : 0) {}

// [snippet judge-on-device]
void DeviceJudge::judge(const Drafts& drafts, DeviceRows logits, std::vector<TokenId>& context,
                        Generation& generation, Round& round) {
  const DraftedRound drafted = drafted_round(*this, drafts, logits, context);
  const auto acceptance_probs =
      std::span(acceptance_probs_).first(std::min(acceptance_probs_.size(), drafted.drafts.size()));
  Verdict verdict;
  sampler_->judge({&drafted, 1}, {&verdict, 1}, acceptance_probs);
  emit(verdict, acceptance_probs, drafts, context, generation, round);
}
// [end snippet judge-on-device]

TokenId DeviceJudge::plain_choice(DeviceRows logits, std::span<const TokenId> context) {
  const Choice choice{.sampling = row_sampling(judging(), context),
                      .by = takes_likeliest()       ? DrawBy::kLargest
                            : options().rule->races ? DrawBy::kRace
                                                    : DrawBy::kInversion,
                      .seed = device_seed(random()),
                      .position = static_cast<int>(context.size()),
                      .purpose = static_cast<std::uint32_t>(Purpose::kTarget),
                      .probs = probs_.data()};
  TokenId token = -1;
  sampler_->choose(logits, {&choice, 1}, {&token, 1});
  if (token < 0) fail_without_distribution();
  return token;
}

DraftedRound drafted_round(const Judge& judge, const Drafts& drafts, DeviceRows logits,
                           std::span<const TokenId> context) {
  const SpeculationOptions& options = judge.options();
  SPECDEC_CHECK(drafts.on_device() && options.rule->on_device, "what a GPU can judge");
  const NamedRule& rule =
      options.lenience < 1 ? lenient_rule(options.sampling.temperature) : *options.rule;
  return {.logits = logits,
          .drafts = drafts.tokens(),
          .draft_probs = drafts.device_probs(),
          .sampling = row_sampling(judge.judging(), context),
          .rule = *rule.on_device,
          .lenience = options.lenience,
          .seed = device_seed(judge.random()),
          .position = static_cast<int>(context.size())};
}

// The verdict does not know where the text stops; what comes after is discarded.
void emit(const Verdict& verdict, std::span<const double> acceptance_probs, const Drafts& drafts,
          std::vector<TokenId>& context, Generation& generation, Round& round) {
  round.end = RoundEnd::kStopped;
  while (!generation.finished()) {
    const bool last = round.accepted == verdict.accepted;  // the correction or the bonus
    if (last && verdict.token < 0) fail_without_distribution();
    const bool tested = round.accepted < round.drafted;
    if (tested && !acceptance_probs.empty())
      round.sum_acceptance_prob += acceptance_probs[static_cast<std::size_t>(round.accepted)];
    context.push_back(last ? verdict.token : drafts.token(round.accepted));
    generation.push(context.back());
    if (last) {
      round.end = tested ? RoundEnd::kRejected : RoundEnd::kAllAccepted;
      break;
    }
    round.accepted++;
  }
}

}  // namespace specdec
