// Stage 5: rejection sampling. Drafts are sampled, and accepted by a rule that gives the text the
// target's distribution.

#include "stages/05_rejection_sampling/rejection_sampling.h"
#include "stages/programs/run/stage_main.h"
#include "stages/programs/sampling/sampling_check.h"
#include "stages/programs/sampling/speculation_options.h"
#include "stages/programs/speculation/session.h"

namespace specdec {
namespace {

void decode(Session& run, Judge& judge) {
  run.prefill();
  while (!run.generation.finished()) {
    run.before_round();
    // Emits 1 to K + 1 tokens.
    const Round round = sampled_round(run.steps, judge, run.context, run.generation);
    run.after_round(round, evidence(judge, run.steps.drafts(), run.options.seed));
  }
}

int run(const RunOptions& options) {
  const SpeculationOptions speculation = speculation_options(options);
  check_speculation_options(speculation);
  if (options.check) return check_rejection_sampling(options);
  Session session(options, {.drafting = sampled_drafting(keep_probs(options, speculation))});
  Dice dice(options.seed);
  const auto judge = make_judge(session.steps, dice, speculation, overlaps_for(options));
  decode(session, *judge);
  session.finish(judgement(session, *judge));
  return kGood;
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  return specdec::stage_main(5, "Speculative sampling: the target's distribution, in fewer passes.", argc,
                             argv, specdec::run, specdec::sampling_listings());
}
