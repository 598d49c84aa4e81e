#pragma once
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "common/generation.h"
#include "common/speculation/drafter.h"
#include "common/speculation/round.h"
#include "stages/programs/run/options.h"

namespace specdec {

// Streams the text of a run to stdout. On a terminal it also shows what became of each token:
// accepted drafts green, the rejected one red and struck through, corrections and bonus tokens
// blue; elsewhere it is the text alone.
class RoundText {
 public:
  explicit RoundText(const RunOptions& options);
  RoundText(const RoundText&) = delete;
  RoundText& operator=(const RoundText&) = delete;

  // For the Generation whose text this is. REQUIRES: this object outlives it.
  Generation::Sink sink();
  // REQUIRES: the Generation that has the sink, before its first token.
  void attach(const Generation& generation) { generation_ = &generation; }

  // After every round. tokenizer: null where there is none.
  void finish_round(const Round& round, const Drafts& drafts, const Tokenizer* tokenizer);

 private:
  bool shown_;
  bool coloured_;
  const Generation* generation_ = nullptr;
  std::vector<std::pair<std::size_t, std::string>> pieces_;  // of this round, by token
};

}  // namespace specdec
