#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "stages/05_rejection_sampling/judge.h"
#include "stages/programs/run/options.h"

namespace specdec {

// Whether a GPU sums min(p, q) for each draft, which takes an extra launch. If it does not,
// Round::sum_acceptance_prob stays 0. Only JSON reports need the sum (alpha_by_probability).
enum class Overlaps { kNotCounted, kCounted };
Overlaps overlaps_for(const RunOptions& options);

// The sizes of a sampler that judges the rounds of all requests.
SamplerRoom judging_room(const Capacity& capacity, int vocab_size);

// Judges rounds whose distributions are in a GPU's memory. One call decides all rounds, then each
// request emits its own tokens. The decisions are those of the requests' own judges. A call takes
// one upload and one download, whose sizes do not depend on the vocabulary.
class DeviceJudge {
 public:
  // siblings: the rule for drafts that branch; none: drafts are chains, each judged by its
  // request's acceptance rule. REQUIRES: the backend samples, and outlives this object.
  DeviceJudge(Backend& backend, const SamplerRoom& room, Overlaps overlaps,
              std::optional<TreeRule> siblings = {});

  // An Error fails only the request that caused it. REQUIRES: the backend keeps the drafts'
  // distributions and has the requests' rules; the judges draw from Dice.
  void judge(std::span<const RoundToJudge> rounds);
  // The judge's plain_choice().
  TokenId plain_choice(const Judge& judge, DeviceRows logits, std::span<const TokenId> context);

 private:
  void judge_chains(std::span<const RoundToJudge> rounds);
  void judge_trees(std::span<const RoundToJudge> rounds);
  DraftedTree drafted_tree(const RoundToJudge& round);

  std::unique_ptr<Sampler> sampler_;
  std::optional<TreeRule> siblings_;
  int levels_;  // of the largest tree
  // What the GPU judges, and its verdicts, for all requests.
  std::vector<DraftedRound> chains_;
  std::vector<Verdict> verdicts_;         // [max_requests]
  std::vector<double> acceptance_probs_;  // [max_requests, K]; empty if overlaps are not counted
  std::vector<DraftedTree> trees_;
  std::vector<DraftedNode> nodes_;
  std::vector<DraftedTrial> trials_;
  std::vector<TreeVerdict> tree_verdicts_;  // [max_requests]
  std::vector<TestedPlace> places_;         // [max_requests, levels]
};

// A copy of `judge`, the judge of a single request, whose rounds a DeviceJudge judges. REQUIRES: as
// for DeviceJudge::judge(), with the target's backend.
std::unique_ptr<Judge> judge_on_device(const Judge& judge, const LanguageModel& target,
                                       const Capacity& round, Overlaps overlaps,
                                       std::optional<TreeRule> siblings = {});

}  // namespace specdec
