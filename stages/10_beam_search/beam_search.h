#pragma once
#include <functional>
#include <span>
#include <vector>

#include "common/base/token_id.h"
#include "stages/10_beam_search/continuations.h"

namespace specdec {

// When a search ends that has found as many hypotheses as it has beams.
enum class EarlyStopping {
  kFalse,  // when no beam would be better than the worst hypothesis if it ended now: a heuristic,
           // since a longer text may divide its score by more
  kTrue,   // at once
  kNever,  // when no beam can become better than the worst hypothesis
};

struct BeamOptions {
  int width = 4;              // w, the number of beams and of hypotheses
  double length_penalty = 1;  // a hypothesis is worth its score / (generated tokens)^this
  EarlyStopping early_stopping = EarlyStopping::kFalse;
};

// A text that has ended.
struct Hypothesis {
  std::vector<TokenId> tokens;  // generated, with the eos that ended it
  double sum = 0;               // of the log-probabilities of its tokens
  double score = 0;             // sum / (number of tokens)^length_penalty

  bool operator==(const Hypothesis&) const = default;
};

// The rules of beam search: which continuations run on, which have ended, and when to stop. They
// are those of Hugging Face transformers (docs/10_beam_search), for one request.
class BeamSearch {
 public:
  // Returns the generated tokens of a continuation.
  using TokensOf = std::function<std::vector<TokenId>(const Continuation&)>;

  // REQUIRES: width >= 1; max_new_tokens >= 1.
  BeamSearch(const BeamOptions& options, std::span<const TokenId> eos_ids, int max_new_tokens);

  // The number of best continuations that a step looks at: enough for w of them to run on, although
  // each beam may be extended by every eos.
  int candidates() const { return candidates(options_.width); }
  int candidates(int width) const;

  // The best `width` of these continuations that do not end with an eos. candidates: best first.
  std::vector<Continuation> running(std::span<const Continuation> candidates, int width) const;

  // Takes a step of all beams. candidates: their best continuations, the best first; candidates()
  // of them, or all that there are. Returns those that run on, at most w, the best first. Of those
  // that end, the first w candidates alone become hypotheses: the ones after them are dropped for
  // good. REQUIRES: !finished().
  std::vector<Continuation> step(std::span<const Continuation> candidates,
                                 const TokensOf& tokens_of);

  bool is_eos(TokenId token) const;
  bool finished() const { return finished_; }
  int length() const { return length_; }  // generated tokens of each beam that runs
  std::span<const Hypothesis> hypotheses() const { return hypotheses_; }  // at most w, best first
  const BeamOptions& options() const { return options_; }

 private:
  void add(Hypothesis hypothesis);
  bool can_improve(double best_running) const;

  BeamOptions options_;
  std::vector<TokenId> eos_ids_;
  int max_new_tokens_;
  int length_ = 0;
  bool finished_ = false;
  std::vector<Hypothesis> hypotheses_;
};

}  // namespace specdec
