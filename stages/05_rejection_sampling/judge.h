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
  double draft_temperature = 0;   // other options of the draft are those of the target
  const NamedRule* rule = &acceptance_rules().front();
  double lenience = 1;  // below 1: lenient() or, at temperature 0, lenient_argmax()
};

// Throws Error, naming the option, if one is out of range or contradicts another.
void check_speculation_options(const SpeculationOptions& options);

// Working memory of judges. Any number of them may share it, if they judge one after another.
struct JudgingScratch {
  JudgingScratch(int drafts, int vocab_size);  // drafts: the most in a round

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

  // A token's draws are keyed by its position: the context's length before the token is emitted.
  // Throws BadLogits if a row of logits is not a distribution (NaN). The tokens before that row
  // have then been emitted, and none after it.
  void judge(const Drafts& drafts, DeviceRows logits, std::vector<TokenId>& context,
             Generation& generation, Round& round) override;

  // Chooses the token after the context from logits, [1, V], as plain sampling does.
  virtual TokenId plain_choice(DeviceRows logits, std::span<const TokenId> context);

  const SpeculationOptions& options() const { return options_; }
  const SamplingOptions& judging() const { return judging_; }  // of target_probs()
  // Whether the rule is lenient_argmax(): greedy decoding with lenience (appendix A.5).
  bool takes_likeliest() const { return rule_ == lenient_argmax; }
  RandomSource& random() const { return random_; }

  // The target's distribution, [V], at the position of draft i of the last round, or of its bonus.
  // REQUIRES: draft i was tested, or i is the bonus's row.
  std::span<const double> target_probs(int i) const;

 protected:
  // Turns a row of logits into the distribution, [V], in the same row of the working memory.
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

// A verified round, with everything that judging it reads and writes.
struct RoundToJudge {
  Judge& judge;  // the request's own
  const Drafts& drafts;
  DeviceRows logits;  // [drafts.size() + 1, V]
  std::vector<TokenId>& context;
  Generation& generation;
  Round& round;
  std::optional<std::string>& failure;  // the Error that ended the judging, if there was one
};

}  // namespace specdec
