// Stage 10: beam search with speculation. A draft model guesses how several texts go on, one pass
// of the target takes several steps of the search, and the texts found are those of plain beam
// search.

#include "stages/programs/beams/beam_batch.h"
#include "stages/programs/beams/beam_check.h"
#include "stages/programs/beams/beam_session.h"
#include "stages/programs/run/stage_main.h"

namespace specdec {
namespace {

void decode(BeamSession& run) {
  run.prefill();
  while (!run.beams->search.finished()) {
    run.before_round();
    const BeamRound round = run.rounds.round(*run.beams);  // 1 to K + 1 steps
    run.after_round(round);
  }
}

int run(const RunOptions& given) {
  const RunOptions options = with_beams(with_heads(given));
  if (options.check) return check_beam_search(options);
  const bool many = !options.requests.empty() || !options.workload.empty();
  if (many) return serve_beams(with_heads(given));
  BeamSession session(options);
  decode(session);
  session.finish();
  return kGood;
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  return specdec::stage_main(10, "Beam search in fewer passes, by drafts.", argc, argv,
                             specdec::run);
}
