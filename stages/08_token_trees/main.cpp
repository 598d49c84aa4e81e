// Stage 8: token trees. Several continuations are drafted and verified in one pass, and the text
// goes on along one path.

#include "stages/08_token_trees/tree_steps.h"
#include "stages/programs/run/stage_main.h"
#include "stages/programs/trees/shape_option.h"
#include "stages/programs/trees/tree_check.h"
#include "stages/programs/trees/tree_session.h"

namespace specdec {
namespace {

// [snippet decode]
void decode(TreeSession& run) {
  run.prefill();
  while (!run.generation.finished()) {
    run.before_round();
    const TreeRound round = tree_round(run.steps, *run.judge, run.context, run.generation);
    run.after_round(round);  // it has emitted one token more than its path has nodes
  }
}
// [end snippet decode]

int run(const RunOptions& options) {
  check_tree_options(options);
  if (options.check) return check_token_trees(options);
  TreeSession session(options);
  decode(session);
  session.finish();
  return kGood;
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  return specdec::stage_main(8, "Token trees: many drafts, one pass.", argc, argv, specdec::run);
}
