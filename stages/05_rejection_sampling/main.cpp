// Stage 5: rejection sampling. Drafts are drawn, and accepted by a rule under which the text has
// the law of the target alone.

#include "common/base/stopwatch.h"
#include "common/run_stats.h"
#include "stages/05_rejection_sampling/rejection_sampling.h"
#include "stages/programs/check/golden_check.h"
#include "stages/programs/run/device.h"
#include "stages/programs/run/load_model.h"
#include "stages/programs/run/stage_main.h"
#include "stages/programs/sampling/sampling_check.h"
#include "stages/programs/sampling/speculation_options.h"
#include "stages/programs/speculation/session.h"

namespace specdec {
namespace {

// [snippet decode]
void decode(DraftAndVerify& steps, RejectionSampling& sampling, std::uint64_t seed,
            std::vector<TokenId>& context, Generation& generation, RoundLog& log, RunStats& stats) {
  {
    const Stopwatch watch(stats.prefill_seconds);
    steps.prefill(context);
  }
  while (!generation.finished()) {
    log.before_round(steps, stats);
    Round round;
    {
      const Stopwatch watch(stats.decode_seconds);
      round = sampling.round(context, generation);  // emits 1 to K + 1 tokens
    }
    steps.count(stats, round);
    log.after_round(steps, round, context, evidence(sampling.judge(), steps.drafts(), seed), stats);
  }
}
// [end snippet decode]

int check(const RunOptions& options) {
  const Checkpoint checkpoint(options.target);
  const auto backend = make_backend(options);
  const LlamaModel model = load_target(options, checkpoint, *backend);
  CheckList list;
  check_rejection_sampling(options, model, golden_directory(options.goldens), list);
  return list.finish();
}

int run(const RunOptions& options) {
  const SpeculationOptions speculation = speculation_options(options);
  check_speculation_options(speculation);
  if (options.check) return check(options);
  Session session(options, keep_probs(options, speculation));
  Dice dice(options.seed);
  RejectionSampling sampling(session.steps, dice, speculation);
  decode(session.steps, sampling, options.seed, session.context, session.generation, session.log,
         session.stats);
  Judge& judge = sampling.judge();
  const auto choose = [&](std::span<const TokenId> context) {
    judge.plain_choice(session.steps.logits_rows(1), context);
  };
  session.finish(judge.drafting(), choose, rule_name(speculation), is_lossless(speculation));
  return kGood;
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  return specdec::stage_main(5, "Speculative sampling: the target's law, in fewer passes.", argc,
                             argv, specdec::run);
}
