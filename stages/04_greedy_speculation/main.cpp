// Stage 4: greedy speculation. A draft proposes K tokens, the target verifies them in one pass, and
// the text is stage 3's to the last bit.

#include "common/base/stopwatch.h"
#include "common/run_stats.h"
#include "stages/04_greedy_speculation/greedy_speculation.h"
#include "stages/programs/check/golden_check.h"
#include "stages/programs/run/device.h"
#include "stages/programs/run/load_model.h"
#include "stages/programs/run/stage_main.h"
#include "stages/programs/speculation/greedy_check.h"
#include "stages/programs/speculation/session.h"

namespace specdec {
namespace {

// [snippet decode]
void decode(DraftAndVerify& steps, std::vector<TokenId>& context, Generation& generation,
            RoundLog& log, RunStats& stats) {
  {
    const Stopwatch watch(stats.prefill_seconds);
    steps.prefill(context);
  }
  GreedyEvidence evidence(steps);
  while (!generation.finished()) {
    log.before_round(steps, stats);
    Round round;
    {
      const Stopwatch watch(stats.decode_seconds);
      round = greedy_round(steps, context, generation);  // emits 1 to K + 1 tokens
    }
    steps.count(stats, round);
    log.after_round(steps, round, context, evidence, stats);
  }
}
// [end snippet decode]

int check(const RunOptions& options) {
  const Checkpoint checkpoint(options.target);
  const auto backend = make_backend(options);
  const LlamaModel model = load_target(options, checkpoint, *backend);
  CheckList list;
  check_greedy_speculation(options, model, golden_directory(options.goldens), list);
  return list.finish();
}

int run(const RunOptions& options) {
  if (options.check) return check(options);
  Session session(options, KeepProbs::kNone);
  decode(session.steps, session.context, session.generation, session.log, session.stats);
  const auto choose = [&](std::span<const TokenId>) {
    argmax(*session.backend, session.steps.logits(0));
  };
  session.finish({}, choose, "greedy", true);
  return kGood;
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  return specdec::stage_main(4, "Speculative decoding of greedy text.", argc, argv, specdec::run);
}
