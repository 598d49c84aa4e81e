#pragma once
#include <span>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/token_id.h"
#include "common/checkpoint/safetensors.h"

namespace specdec {

// One golden step of greedy decoding.
struct GreedyStep {
  TokenId token = 0;
  double margin = 0;   // the largest logit minus the second largest
  double max_abs = 0;  // the largest absolute logit
};

// The steps of a line of greedy.jsonl, or of a PROMPT.steps.safetensors: `tokens`, `margins` and
// `max_abs`, at least one of each. Throws Error.
std::vector<GreedyStep> read_greedy_steps(const JsonObject& line, int vocab_size);
std::vector<GreedyStep> read_greedy_steps(const SafetensorsFile& file, int vocab_size);

enum class StepVerdict {
  kEqual,
  kNearTie,  // another token, but rounding within the tolerance may change the argmax
  kWrong,    // another token, and no rounding explains it
};

// Two logits that are each off by at most tolerance x max_abs can change places if the margin
// between them is at most twice that. A margin that is NaN or infinite excuses nothing.
StepVerdict judge_step(TokenId got, const GreedyStep& want, double tolerance);

struct GreedyComparison {
  int compared = 0;            // steps, up to the first wrong one
  std::vector<int> near_ties;  // the steps with one; a run on the CPU must have none
  int wrong_step = -1;         // the first step that is wrong, missing or one too many
  std::string report;          // always with the count of near-ties; no newline at the end

  bool agrees() const { return wrong_step < 0; }
};

// got[i]: the program's choice after the prompt and the golden tokens before step i. REQUIRES: if
// the two differ, the program continues with the golden token, not with its own (teacher forcing).
// tolerance: of the logits.
GreedyComparison compare_greedy(std::span<const TokenId> got, std::span<const GreedyStep> want,
                                double tolerance);

}  // namespace specdec
