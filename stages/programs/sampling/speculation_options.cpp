#include "stages/programs/sampling/speculation_options.h"

#include "common/speculation/device_draft_sampler.h"
#include "common/speculation/device_drafter.h"
#include "stages/05_rejection_sampling/sampling_drafter.h"

namespace specdec {

SpeculationOptions speculation_options(const RunOptions& options) {
  return {.sampling = options.sampling,
          .draft_temperature = options.draft_temperature.value_or(options.sampling.temperature),
          .rule = options.acceptance.empty() ? &acceptance_rules().front()
                                             : &find_acceptance_rule(options.acceptance),
          .lenience = options.lenience};
}

KeepProbs keep_probs(const RunOptions& options, const SpeculationOptions& speculation) {
  const bool looked_at = options.explain || !options.trace.empty();
  return looked_at || !speculation.rule->on_device ? KeepProbs::kOnHost : KeepProbs::kBesideLogits;
}

Drafting sampled_drafting(KeepProbs keep) {
  const auto make = [keep](LanguageModel& model, const Capacity& capacity,
                           int vocab_size) -> std::unique_ptr<Drafter> {
    const int max_context = capacity.context + 1;
    if (keep != KeepProbs::kBesideLogits || !model.backend().samples()) {
      return std::make_unique<SamplingDrafter>(model, max_context, capacity.requests);
    }
    auto sampler = std::make_unique<DeviceDraftSampler>(model.backend(), vocab_size, max_context,
                                                        capacity.requests);
    auto drafter =
        std::make_unique<ModelDrafter>(model, std::move(sampler), max_context, capacity.requests);
    if (!model.feeds_from_device()) return drafter;
    return std::make_unique<DeviceDrafter>(model, std::move(drafter), max_context,
                                           capacity.requests, vocab_size);
  };
  return {.keep = keep, .make = make};
}

std::unique_ptr<Judge> make_judge(const DraftAndVerify& steps, RandomSource& random,
                                  const SpeculationOptions& options, Overlaps overlaps) {
  const Drafts& drafts = steps.drafts();
  auto judge = std::make_unique<Judge>(
      steps.target().backend(), random, options,
      std::make_shared<JudgingScratch>(drafts.capacity().verified, steps.V()));
  if (!drafts.on_device()) return judge;
  return judge_on_device(*judge, steps.target(), drafts.capacity(), overlaps);
}

std::string_view rule_name(const SpeculationOptions& options) {
  return options.lenience < 1 ? lenient_rule(1).name : options.rule->name;
}

bool is_lossless(const SpeculationOptions& options) {
  return options.rule->lossless && options.lenience == 1;
}

Judgement judgement(const Session& run, Judge& judge) {
  return {.drafting = judge.drafting(),
          .choose =
              [&](std::span<const TokenId> context) {
                judge.plain_choice(run.steps.logits_rows(1), context);
              },
          .rule = rule_name(judge.options()),
          .lossless = is_lossless(judge.options())};
}

RoundEvidence evidence(const Judge& judge, const Drafts& drafts, std::uint64_t seed) {
  const SpeculationOptions& options = judge.options();
  const bool random = options.sampling.temperature > 0 || options.draft_temperature > 0;
  return {.drafts = &drafts,
          .target_probs = [&judge](int i) { return judge.target_probs(i); },
          .seed = random ? std::optional(seed) : std::nullopt,
          .tests_by_uniform = options.rule->tests_by_uniform,
          .races = options.rule->races,
          .corrects_by_residual = options.rule->corrects_by_residual && !judge.takes_likeliest(),
          .correction = options.rule->correction};
}

}  // namespace specdec
