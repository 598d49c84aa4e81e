#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "stages/05_rejection_sampling/judge.h"
#include "stages/programs/run/options.h"

namespace specdec {

// Whether a GPU adds up min(p, q) for each tested draft, a launch of its own. Where it does not,
// Round::sum_acceptance_prob stays 0. Only JSON says what comes of it (alpha_by_probability).
enum class Overlaps { kNotCounted, kCounted };
Overlaps overlaps_for(const RunOptions& options);

// Of a sampler that judges the rounds of all requests.
SamplerRoom judging_room(const Capacity& capacity, int vocab_size);

// Judges rounds where the distributions are in a GPU's memory: one verdict for all of them, then
// each request emits its own tokens. The decisions are those of the requests' own judges. It is one
// upload and one download, neither of them as wide as the vocabulary.
class DeviceJudge {
 public:
  // siblings: how the GPU judges drafts that branch; none: they are chains, each of which is judged
  // by its request's acceptance rule. REQUIRES: the backend samples, and outlives this object.
  DeviceJudge(Backend& backend, const SamplerRoom& room, Overlaps overlaps,
              std::optional<TreeRule> siblings = {});

  // An Error fails the request that caused it, and no other. REQUIRES: the drafts are on the
  // backend; it knows their requests' rules; the judges draw from seeds' dice.
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
  // What the GPU is to judge, and what it says, of all requests.
  std::vector<DraftedRound> chains_;
  std::vector<Verdict> verdicts_;         // [max_requests]
  std::vector<double> acceptance_probs_;  // [max_requests, K]; none where overlaps are not counted
  std::vector<DraftedTree> trees_;
  std::vector<DraftedNode> nodes_;
  std::vector<DraftedTrial> trials_;
  std::vector<TreeVerdict> tree_verdicts_;  // [max_requests]
  std::vector<TestedPlace> places_;         // [max_requests, levels]
};

// As `judge`, which is of a run of one request, but its rounds are judged by a DeviceJudge.
// REQUIRES: the drafts are on the target's backend; the rest is as there.
std::unique_ptr<Judge> judge_on_device(const Judge& judge, const LanguageModel& target,
                                       const Capacity& round, Overlaps overlaps,
                                       std::optional<TreeRule> siblings = {});

}  // namespace specdec
