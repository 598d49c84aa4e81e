// Stage 8: token trees. The target verifies several continuations in one pass and accepts one path,
// for one request or for a batch.

#include "stages/08_token_trees/tree_round.h"
#include "stages/programs/run/draft_length.h"
#include "stages/programs/run/stage_main.h"
#include "stages/programs/trees/shape_option.h"
#include "stages/programs/trees/tree_check.h"
#include "stages/programs/trees/tree_run.h"

namespace specdec {
namespace {

void decode(Session& run, RoundJudge& judge, TreeRun& trees) {
  run.prefill();
  while (!run.generation.finished()) {
    run.before_round();
    const Round round = tree_round(run.steps, judge, run.context, run.generation);
    run.after_round(round, trees.evidence(run, judge));
    trees.count(run, round);
  }
}

int run_one(const RunOptions& options) {
  check_drafts_differ(options);
  TreeRun trees(options);
  Session session(trees.options(), trees.parts());
  trees.adaptive().announce(session);
  Dice dice(options.seed);
  const auto judge = trees.make_judge(session, dice);
  decode(session, *judge, trees);
  const auto of_speedup = trees.adaptive().of_speedup(session);
  session.finish(trees.judgement(session, *judge), trees.extras(session), of_speedup);
  trees.write_profile();
  return kGood;
}

int run(const RunOptions& options) {
  check_draft_length(options);
  check_tree_options(options);
  if (options.check) return check_token_trees(options);
  return options.has_many_requests() ? TreeRun(options).serve_batch() : run_one(options);
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  return specdec::stage_main(8, "Token trees: many drafts, one pass.", argc, argv, specdec::run,
                             specdec::tree_listings());
}
