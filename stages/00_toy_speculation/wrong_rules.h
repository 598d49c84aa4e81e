#pragma once
#include <array>
#include <cmath>
#include <functional>
#include <string_view>
#include <vector>

#include "stages/00_toy_speculation/several_drafts.h"

// Common mistakes, three in a round and four with several drafts for one position. With each, the
// text looks fine but has another law. A check that misses them is useless.
namespace specdec::toy {

// [snippet wrong-rules]
// Without max(0, ...), p - q sums to zero and cannot be normalised. Absolute values can.
inline Probs unclamped_residual(const Probs& target_probs, const Probs& draft_probs) {
  Probs rest(target_probs.size());
  double total = 0;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    rest[i] = std::abs(target_probs[i] - draft_probs[i]);
    total += rest[i];
  }
  if (!(total > 0)) return target_probs;
  for (double& prob : rest) prob /= total;
  return rest;
}

inline Probs draft_alone(const Probs& /*target_probs*/, const Probs& draft_probs) {
  return draft_probs;
}

struct WrongRule {
  std::string_view name;
  Rule rule;
};

inline constexpr std::array<WrongRule, 3> kWrongRules = {{
    {"residual skipped: the correction comes from target_probs",
     {accept_probability, target_alone, target_alone}},
    {"residual not clamped: the correction comes from norm(|p - q|)",
     {accept_probability, unclamped_residual, target_alone}},
    {"bonus from the draft: the last token comes from draft_probs",
     {accept_probability, residual, draft_alone}},
}};
// [end snippet wrong-rules]

// A token that several drafts share is tried once.
inline void merge_duplicates(std::vector<Trial>& trials) {
  std::vector<Trial> merged;
  for (const Trial& trial : trials) {
    if (std::ranges::find(merged, trial.draft, &Trial::draft) == merged.end()) {
      merged.push_back(trial);
    }
  }
  trials = std::move(merged);
}

inline void sort_by_id(std::vector<Trial>& trials) {
  std::ranges::stable_sort(trials, {}, &Trial::draft);
}

inline void sort_by_probability(std::vector<Trial>& trials) {
  const auto own = [](const Trial& trial) { return trial.draft_probs[trial.draft]; };
  std::ranges::stable_sort(trials, std::greater<>{}, own);
}

// All drafts are judged with q, although later ones were drawn from the rest of it.
inline void forget_replacement(std::vector<Trial>& trials) {
  for (Trial& trial : trials) trial.draft_probs = trials.front().draft_probs;
}

struct WrongTrials {
  std::string_view name;
  Drafting drafting;
  Arrange arrange;
};

inline constexpr std::array<WrongTrials, 4> kWrongTrials = {{
    {"duplicates merged: a token is tried once", Drafting::kIndependent, merge_duplicates},
    {"sorted by token id", Drafting::kIndependent, sort_by_id},
    {"sorted by probability", Drafting::kIndependent, sort_by_probability},
    {"without replacement, judged with q", Drafting::kWithoutReplacement, forget_replacement},
}};

}  // namespace specdec::toy
