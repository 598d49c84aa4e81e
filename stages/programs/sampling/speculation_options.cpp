#include "stages/programs/sampling/speculation_options.h"

namespace specdec {

SpeculationOptions speculation_options(const RunOptions& options) {
  return {.sampling = options.sampling,
          .draft_temperature = options.draft_temperature.value_or(options.sampling.temperature),
          .rule = &find_acceptance_rule(options.acceptance),
          .lenience = options.lenience};
}

KeepProbs keep_probs(const RunOptions& options, const SpeculationOptions& speculation) {
  const bool looked_at = options.explain || !options.trace.empty();
  return looked_at || !speculation.rule->on_device ? KeepProbs::kOnHost : KeepProbs::kBesideLogits;
}

std::string_view rule_name(const SpeculationOptions& options) {
  return options.lenience < 1 ? "lenient" : options.rule->name;
}

bool is_lossless(const SpeculationOptions& options) {
  return options.rule->lossless && options.lenience == 1;
}

RoundEvidence evidence(const Judge& judge, const Drafts& drafts, std::uint64_t seed) {
  const SpeculationOptions& options = judge.options();
  const bool random = options.sampling.temperature > 0 || options.draft_temperature > 0;
  const bool takes_likeliest = options.lenience < 1 && options.sampling.temperature == 0;
  return {.drafts = &drafts,
          .target_probs = [&judge](int i) { return judge.target_probs(i); },
          .seed = random ? std::optional(seed) : std::nullopt,
          .tests_by_uniform = options.rule->tests_by_uniform,
          .races = options.rule->races,
          .corrects_by_residual = options.rule->corrects_by_residual && !takes_likeliest,
          .correction = options.rule->correction};
}

}  // namespace specdec
