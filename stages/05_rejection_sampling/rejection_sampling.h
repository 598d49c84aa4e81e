#pragma once
#include <span>
#include <vector>

#include "common/run/generation.h"
#include "common/speculation/round_record.h"
#include "stages/04_greedy_speculation/draft_and_verify.h"
#include "stages/05_rejection_sampling/acceptance.h"

namespace specdec {

// How a request is sampled and its drafts are judged.
struct SpeculationOptions {
  SamplingOptions sampling = {};  // of the target
  double draft_temperature = 0;   // the rest of the draft's options are the target's
  const NamedRule* rule = &find_acceptance_rule("rejection");
  double lenience = 1;  // below 1: lenient() or, at temperature 0, lenient_argmax()
};

// Throws Error, naming the option, where one is out of range or does not go with the others.
void check_speculation_options(const SpeculationOptions& options);

// Speculative decoding for a target that samples (Leviathan et al., Algorithm 1, with section 2.2's
// standardized sampling). With a lossless rule the emitted text has the law of the target alone; at
// temperature 0 it is greedy_round(), round for round.
class RejectionSampling {
 public:
  // Works on the parts of a round that `steps` has, which keep the drafts' distributions.
  // REQUIRES: steps and chance outlive this object. Throws Error for options out of range.
  RejectionSampling(DraftAndVerify& steps, Chance& chance, const SpeculationOptions& options);

  // One round, as greedy_round(). Throws Error where a row of logits holds no distribution (NaN);
  // the tokens before it have been emitted then, and none after it.
  Round round(std::vector<TokenId>& context, Generation& generation);

  // A token of the target's own, from steps.logits(0) after the context: what plain sampling does.
  TokenId plain_choice(std::span<const TokenId> context);

  // For people to look at, of the last round. seed: the Dice's.
  RoundEvidence evidence(std::uint64_t seed) const;
  const Sampling& drafting() const { return drafting_; }
  std::string_view rule_name() const;  // "lenient" where a lenience below 1 made it so
  bool lossless() const { return options_.rule->lossless && options_.lenience == 1; }

  // The distribution [V] that judged draft i of the last round, or that gave its bonus.
  // REQUIRES: i < tested, or i is the bonus' row.
  std::span<const double> target_probs(int i) const;

 private:
  std::span<const double> standardise(int row, std::span<const TokenId> history);
  TokenId draw(std::span<const double> target_probs, int position);

  DraftAndVerify& steps_;
  Chance& chance_;
  SpeculationOptions options_;
  AcceptanceRule rule_;
  SamplingOptions judging_;           // what target_probs are made with
  Sampling drafting_;                 // what drafts are drawn with
  std::vector<float> host_logits_;    // [V]
  std::vector<double> target_probs_;  // [K + 1, V]
  std::vector<double> scratch_;       // [V]
  SamplingScratch sampling_scratch_;
};

}  // namespace specdec
