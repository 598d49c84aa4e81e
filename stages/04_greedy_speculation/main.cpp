// Stage 4: greedy speculation. A draft model drafts K tokens, the target verifies them in one pass,
// and the text is exactly that of stage 3.

#include "stages/04_greedy_speculation/greedy_speculation.h"
#include "stages/programs/run/stage_main.h"
#include "stages/programs/speculation/greedy_check.h"
#include "stages/programs/speculation/session.h"

namespace specdec {
namespace {

// [snippet decode]
void decode(Session& run) {
  GreedyEvidence evidence(run.steps);
  run.prefill();
  while (!run.generation.finished()) {
    run.before_round();
    const Round round = greedy_round(run.steps, run.context, run.generation);  // 1 to K + 1 tokens
    run.after_round(round, evidence);
  }
}
// [end snippet decode]

int run(const RunOptions& options) {
  if (options.check) return check_greedy_speculation(options);
  Session session(options);
  decode(session);
  session.finish({.choose = [&](std::span<const TokenId>) {
    argmax(*session.target.backend, session.steps.logits(0));
  }});
  return kGood;
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  return specdec::stage_main(4, "Speculative decoding of greedy text.", argc, argv, specdec::run);
}
