#pragma once
#include <string>
#include <string_view>

namespace specdec {

// The stages' programs, named after their folders. Messages and reports take all names from this
// list.
inline constexpr std::string_view kStages[] = {
    "00_toy_speculation",      "01_naive_decoder",      "02_contiguous_kv_cache",
    "03_paged_kv_cache",       "04_greedy_speculation", "05_rejection_sampling",
    "06_batched_verification", "07_adaptive_drafting",  "08_token_trees",
    "09_self_drafting",        "10_beam_search"};

// The first stages that draft, sample, serve batches of requests, choose K and their drafters,
// draft trees, and draft from the target's rows. Later stages do so, too, up to the one that
// searches beams.
inline constexpr int kFirstDraftingStage = 4, kFirstSamplingStage = 5, kFirstBatchStage = 6,
                     kFirstAdaptiveStage = 7, kFirstTreeStage = 8, kFirstSelfStage = 9,
                     kFirstBeamStage = 10;

// 4 for "04_greedy_speculation", 10 for "10_...".
constexpr int stage_number(std::string_view name) {
  int number = 0;
  for (const char digit : name.substr(0, name.find('_'))) number = 10 * number + (digit - '0');
  return number;
}

constexpr bool has_stage(int stage) {
  for (const std::string_view name : kStages) {
    if (stage_number(name) == stage) return true;
  }
  return false;
}

// "04_greedy_speculation" for 4. REQUIRES: has_stage(stage).
std::string stage_name(int stage);

}  // namespace specdec
