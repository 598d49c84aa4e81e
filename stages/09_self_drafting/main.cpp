// Stage 9: self-drafting. Heads on the target's own rows draft, as chains or as trees, for one
// request and for many at once.

#include <utility>

#include "stages/08_token_trees/tree_round.h"
#include "stages/programs/run/draft_length.h"
#include "stages/programs/run/stage_main.h"
#include "stages/programs/self/self_check.h"
#include "stages/programs/self/self_draft.h"
#include "stages/programs/trees/shape_option.h"
#include "stages/programs/trees/tree_run.h"

namespace specdec {
namespace {

void decode(Session& run, RoundJudge& judge, TreeRun& trees) {
  run.prefill();
  while (!run.generation.finished()) {
    run.before_round();
    const Round round = tree_round(run.steps, judge, run.context, run.generation);  // stage 8's
    run.after_round(round, trees.evidence(run, judge));
    trees.count(run, round);
  }
}

int run_one(const RunOptions& options) {
  check_drafts_differ(options);
  TreeRun trees(options);
  const SelfDraft self(trees.options(), trees.options().spec_length);
  Session session(trees.options(), self.parts(trees.parts()));
  trees.adaptive().announce(session);
  Dice dice(options.seed);
  const auto judge = trees.make_judge(session, dice);
  decode(session, *judge, trees);
  const auto of_speedup = trees.adaptive().of_speedup(session);
  session.finish(trees.judgement(session, *judge), trees.extras(session), of_speedup);
  trees.write_profile();
  return kGood;
}

int run_many(const RunOptions& options) {
  const TreeRun trees(options);
  const SelfDraft self(trees.options(), trees.options().spec_length);
  return trees.serve_batch([&](BatchParts parts) { return self.parts(std::move(parts)); });
}

int run(const RunOptions& given) {
  const RunOptions options = with_heads(given);
  check_draft_length(options);
  check_tree_options(options);
  if (options.check) return check_self_drafting(options);
  return options.has_many_requests() ? run_many(options) : run_one(options);
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  return specdec::stage_main(9, "Self-drafting: the target's own rows draft.", argc, argv,
                             specdec::run, specdec::tree_listings());
}
