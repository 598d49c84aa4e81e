#pragma once
#include "common/generation.h"
#include "common/speculation/drafter.h"
#include "common/speculation/round.h"
#include "stages/programs/run/options.h"
#include "stages/programs/show/report.h"

namespace specdec {

// Streams the text of a run to stdout. On a terminal, accepted drafts are green, the rejected draft
// of a round is red and struck through, and corrections and bonus tokens are blue. Elsewhere,
// prints the text alone.
class RoundText {
 public:
  explicit RoundText(const RunOptions& options);

  // Call after every round. tokenizer: null if there is none.
  void finish_round(const Round& round, const Generation& generation, const Drafts& drafts,
                    const Tokenizer* tokenizer);

 private:
  TextStream stream_;
  bool coloured_;
};

}  // namespace specdec
