#pragma once
#include "common/generation.h"
#include "common/speculation/drafter.h"
#include "common/speculation/round.h"
#include "stages/programs/run/options.h"
#include "stages/programs/show/report.h"

namespace specdec {

// Streams the text of a run to stdout. On a terminal it also shows what became of each token:
// accepted drafts green, the rejected one red and struck through, corrections and bonus tokens
// blue; elsewhere it is the text alone.
class RoundText {
 public:
  explicit RoundText(const RunOptions& options);

  // After every round. tokenizer: null where there is none.
  void finish_round(const Round& round, const Generation& generation, const Drafts& drafts,
                    const Tokenizer* tokenizer);

 private:
  TextStream stream_;
  bool coloured_;
};

}  // namespace specdec
