#include "stages/programs/beams/beam_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/message.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

std::string words(TokenId token, const Tokenizer* tokenizer) {
  return tokenizer ? in_quotes(tokenizer->decoded_bytes(token, false)) : std::to_string(token);
}

// Why a beam has no continuation among those that run on.
std::string death(const BeamStep& step, int beam) {
  const auto best = std::ranges::find(step.candidates, beam, &Continuation::beam);
  if (best == step.candidates.end()) {
    return fmt::format("none of its continuations is among the best {}", step.candidates.size());
  }
  return fmt::format("its best continuation has rank {}, {:.4f} below the first",
                     best - step.candidates.begin() + 1,
                     step.candidates.front().score - best->score);
}

// beams: how many there were before.
std::string explain(const BeamStep& step, int beams, const Tokenizer* tokenizer) {
  std::string lines;
  for (int i = 0; i < int_size(step.running); i++) {
    const auto& [beam, token, score] = step.running[i];
    lines +=
        fmt::format("    {}: {} + {}, {:.4f}\n", i + 1, beam + 1, words(token, tokenizer), score);
  }
  if (step.running.empty()) return "    all end here\n";
  for (int beam = 0; beam < beams; beam++) {
    if (std::ranges::count(step.running, beam, &Continuation::beam) > 0) continue;
    lines += fmt::format("    beam {} dies: {}\n", beam + 1, death(step, beam));
  }
  if (step.undrafted > 0) {
    lines += fmt::format("    {} of {} not drafted, so the pass has no more steps\n",
                         step.undrafted, step.running.size());
  }
  return lines;
}

}  // namespace

std::string explain(const BeamRound& round, std::int64_t number, const Tokenizer* tokenizer) {
  std::string lines = fmt::format(
      "round {}: {} levels of drafts, {} rows, {} cached tokens beside the common text; {} {}\n",
      number, round.drafted, round.rows, round.kept, round.steps.size(),
      round.steps.size() == 1 ? "step" : "steps");
  int beams = round.beams, hypotheses = round.hypotheses;
  for (int i = 0; i < int_size(round.steps); i++) {
    const BeamStep& step = round.steps[i];
    lines += fmt::format("  step {}:\n", round.start + i + 1);
    lines += explain(step, beams, tokenizer);
    if (step.hypotheses > hypotheses) {
      lines += fmt::format("    {} texts have ended so far\n", step.hypotheses);
    }
    beams = int_size(step.running);
    hypotheses = step.hypotheses;
  }
  return lines;
}

}  // namespace specdec
