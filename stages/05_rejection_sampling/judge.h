#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/generation.h"
#include "common/language_model.h"
#include "common/speculation/round_judge.h"
#include "stages/04_greedy_speculation/draft_and_verify.h"
#include "stages/05_rejection_sampling/acceptance.h"

namespace specdec {

// How a request is sampled and its drafts are judged.
struct SpeculationOptions {
  SamplingOptions sampling = {};  // of the target
  double draft_temperature = 0;   // the rest of the draft's options are the target's
  const NamedRule* rule = &acceptance_rules().front();
  double lenience = 1;  // below 1: lenient() or, at temperature 0, lenient_argmax()
};

// Throws Error, naming the option, where one is out of range or does not go with the others.
void check_speculation_options(const SpeculationOptions& options);

// Working memory of judges: any number of them may share it, one after the other.
struct JudgingScratch {
  JudgingScratch(int drafts, int vocab_size);  // drafts: the most of a round

  std::vector<float> logits;         // [V]
  std::vector<double> target_probs;  // [drafts + 1, V] of the last round that was judged
  std::vector<double> residual;      // [V]
  SamplingScratch sampling;
};

// Judges the drafts of one request: which ones are accepted, and which token follows them
// (Leviathan et al., Algorithm 1, with section 2.2's standardized sampling). With a lossless rule
// the emitted text has the distribution of the target alone.
class Judge : public RoundJudge {
 public:
  // REQUIRES: backend and random outlive this object. Throws Error for options out of range.
  Judge(Backend& backend, RandomSource& random, const SpeculationOptions& options,
        std::shared_ptr<JudgingScratch> scratch);

  // The position of a token, by which its draws are named, is the context's length before the token
  // is emitted. Throws Error where a row of logits holds no distribution (NaN); the tokens before
  // it have been emitted then, and none after it.
  void judge(const Drafts& drafts, DeviceRows logits, std::vector<TokenId>& context,
             Generation& generation, Round& round) override;

  // The target's own token after the context, from logits [1, V], as in plain sampling.
  virtual TokenId plain_choice(DeviceRows logits, std::span<const TokenId> context);

  const SpeculationOptions& options() const { return options_; }
  const SamplingOptions& judging() const { return judging_; }  // what target_probs are made with
  // Whether the target's own token is the likeliest one, with lenience (appendix A.5).
  bool takes_likeliest() const { return rule_ == lenient_argmax; }
  RandomSource& random() const { return random_; }

  // The distribution [V] that judged draft i of the last round, or that gave its bonus.
  // REQUIRES: i < tested, or i is the bonus' row.
  std::span<const double> target_probs(int i) const;

 protected:
  // [V], from a row of logits, into the same row of the working memory.
  std::span<const double> standardise(DeviceRows logits, int row, std::span<const TokenId> history);
  TokenId draw(std::span<const double> target_probs, int position);
  std::span<double> residual() const { return scratch_.residual; }  // [V]

 private:
  Backend& backend_;
  RandomSource& random_;
  SpeculationOptions options_;
  std::shared_ptr<JudgingScratch> shared_scratch_;
  JudgingScratch& scratch_;
  AcceptanceRule rule_;
  SamplingOptions judging_;
};

// ---- Used from stage 6 on, where rounds of several requests are judged in one step, and where a
// device judges.

// A round whose drafts the target has verified, with all that judging it reads and writes.
struct RoundToJudge {
  Judge& judge;  // the request's own
  const Drafts& drafts;
  DeviceRows logits;  // [drafts.size() + 1, V]
  std::vector<TokenId>& context;
  Generation& generation;
  Round& round;
  std::optional<std::string>& failure;  // why the round could not be judged to its end
};

}  // namespace specdec
