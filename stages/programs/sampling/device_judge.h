#pragma once
#include <memory>
#include <span>
#include <vector>

#include "stages/05_rejection_sampling/judge.h"
#include "stages/programs/run/options.h"

namespace specdec {

// Whether a GPU adds up min(p, q) for each tested draft, a launch of its own. Where it does not,
// Round::sum_acceptance_prob stays 0. Only JSON says what comes of it (alpha_by_probability).
enum class Overlaps { kNotCounted, kCounted };
Overlaps overlaps_for(const RunOptions& options);

// Stage 5's Judge where the distributions are in a GPU's memory: the same decisions, made there.
class DeviceJudge final : public Judge {
 public:
  // history: the tokens of the longest context. The rest is as for Judge.
  // REQUIRES: the backend samples; drafts are on it; the options' rule is one that a GPU knows.
  DeviceJudge(Backend& backend, RandomSource& random, const SpeculationOptions& options,
              JudgingScratch& scratch, int spec_length, int vocab_size, int history,
              Overlaps overlaps);

  void judge(const Drafts& drafts, DeviceRows logits, std::vector<TokenId>& context,
             Generation& generation, Round& round) override;
  TokenId plain_choice(DeviceRows logits, std::span<const TokenId> context) override;

 private:
  std::unique_ptr<Sampler> sampler_;
  DeviceArray<double> probs_;             // [V]
  std::vector<double> acceptance_probs_;  // [K]; none where overlaps are not counted
};

// What a Sampler is told of a round that the judge would judge.
DraftedRound drafted_round(const Judge& judge, const Drafts& drafts, DeviceRows logits,
                           std::span<const TokenId> context);

// What Judge::judge() emits and writes into the round, by a Sampler's verdict. acceptance_probs:
// one for each draft, or none.
void emit(const Verdict& verdict, std::span<const double> acceptance_probs, const Drafts& drafts,
          std::vector<TokenId>& context, Generation& generation, Round& round);

}  // namespace specdec
