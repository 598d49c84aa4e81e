#pragma once
#include <climits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/inflation/inflated_config.h"
#include "stages/programs/run/options.h"

// What the declarations of options share.
namespace specdec {

inline constexpr Stages kDrafting = stages_from(kFirstDraftingStage);
// Beam search has rules of its own for what follows what.
inline constexpr int kLastTextStage = kFirstBeamStage - 1;
inline constexpr Stages kTexts{1, kLastTextStage}, kSampling{kFirstSamplingStage, kLastTextStage},
    kBatches = stages_from(kFirstBatchStage), kAdaptive{kFirstAdaptiveStage, kLastTextStage},
    kTreeShapes{kFirstTreeStage, kLastTextStage}, kSeveralDrafts{kFirstTreeStage, kFirstTreeStage},
    kSelf = stages_from(kFirstSelfStage);

using Options = std::vector<Option>;

// What drafts, how much of it, and in which shape.
Options drafting_options(RunOptions& o, int stage, const Listings& listings);

// A line of help, and a line for each entry of a table that the stage has.
template <typename Table>
std::string with_list(std::string help, const Table& table, int stage) {
  for (const auto& entry : table) {
    if (entry.since > stage) continue;
    if constexpr (requires { entry.last; }) {
      if (entry.last < stage) continue;
    }
    std::string name(entry.name);
    if constexpr (requires { entry.sizes; }) name += fmt::format(":{}", entry.sizes);
    help += fmt::format("\n  {:<17}{}", name, entry.summary);
  }
  return help;
}

// An option that names a rule. The first rule is the default.
inline Option rule_option(std::string_view usage, std::string help, std::string* rule,
                          const std::vector<Named>& rules, OptionTraits traits) {
  if (!rules.empty()) traits.otherwise = rules.front().name;
  return {usage, with_list(std::move(help), rules, INT_MAX), rule, traits};
}

inline Option weights_option(std::string_view usage, std::string_view whose, WeightFormat* format,
                             Stages stages) {
  return {usage,
          fmt::format("{} weights: stored, or rounded to int8 (half the bytes of bf16) or to q4 "
                      "(a third)",
                      whose),
          one_of(format),
          {.stages = stages}};
}

// Excludes --check, because golden files belong to a model that is not inflated.
inline Option inflation_option(std::string_view usage, std::string_view whose, std::string* shape,
                               Stages stages) {
  return {usage,
          fmt::format("embed {} in a larger shape: the same text at the cost of the larger model; "
                      "{} or a config.json",
                      whose, named_shapes()),
          shape,
          {.stages = stages, .excludes = {"--check"}}};
}

// The groups one after the other.
inline Options joined(const std::vector<Options>& groups) {
  Options all;
  for (const Options& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace specdec
