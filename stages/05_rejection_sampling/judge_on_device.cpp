// Judge where the distributions are in a GPU's memory: the same decisions, made there.
#include "common/base/check.h"
#include "common/sampling/device_sampling.h"
#include "stages/05_rejection_sampling/judge.h"

namespace specdec {

// [snippet judge-on-device]
void Judge::judge_on_device(const Drafts& drafts, DeviceRows logits, std::vector<TokenId>& context,
                            Generation& generation, Round& round) {
  const DraftedRound drafted = drafted_round(drafts, logits, context);
  const auto overlaps = std::span(scratch_.overlaps).first(drafted.drafts.size());
  Verdict verdict;
  scratch_.sampler->judge({&drafted, 1}, {&verdict, 1}, overlaps);
  emit(verdict, overlaps, drafts, context, generation, round);
}
// [end snippet judge-on-device]

// The verdict does not know where the text stops; what is behind that is discarded.
void Judge::emit(const Verdict& verdict, std::span<const double> overlaps, const Drafts& drafts,
                 std::vector<TokenId>& context, Generation& generation, Round& round) const {
  round.end = RoundEnd::kStopped;
  while (!generation.finished()) {
    const bool last = round.accepted == verdict.accepted;  // the correction or the bonus
    if (last && verdict.token < 0) fail_without_distribution();
    const bool tested = round.accepted < round.drafted;
    if (tested) round.overlap += overlaps[static_cast<std::size_t>(round.accepted)];
    context.push_back(last ? verdict.token : drafts.token(round.accepted));
    generation.push(context.back());
    if (last) {
      round.end = tested ? RoundEnd::kRejected : RoundEnd::kAllAccepted;
      break;
    }
    round.accepted++;
  }
}

DraftedRound Judge::drafted_round(const Drafts& drafts, DeviceRows logits,
                                  std::span<const TokenId> context) const {
  SPECDEC_CHECK(drafts.on_device() && options_.rule->on_device, "what a GPU can judge");
  const NamedRule& rule =
      options_.lenience < 1 ? lenient_rule(options_.sampling.temperature) : *options_.rule;
  return {.logits = logits,
          .drafts = drafts.tokens(),
          .draft_probs = drafts.device_probs(),
          .sampling = row_sampling(judging_, context),
          .rule = *rule.on_device,
          .lenience = options_.lenience,
          .seed = device_seed(chance_),
          .position = static_cast<int>(context.size())};
}

TokenId Judge::plain_choice_on_device(DeviceRows logits, std::span<const TokenId> context) {
  const Choice choice{.sampling = row_sampling(judging_, context),
                      .by = rule_ == lenient_argmax ? DrawBy::kLargest
                            : options_.rule->races  ? DrawBy::kRace
                                                    : DrawBy::kInversion,
                      .seed = device_seed(chance_),
                      .position = static_cast<int>(context.size()),
                      .purpose = static_cast<std::uint32_t>(Purpose::kTarget),
                      .probs = scratch_.device_probs.data()};
  TokenId token = -1;
  scratch_.sampler->choose(logits, {&choice, 1}, {&token, 1});
  if (token < 0) fail_without_distribution();
  return token;
}

}  // namespace specdec
