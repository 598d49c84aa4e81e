// Stage 6: continuous batching with speculation. Many requests share each pass of the target; each
// request accepts its own number of drafts, and gets the same tokens as alone.

#include "stages/programs/batch/batch_check.h"
#include "stages/programs/batch/batch_report.h"
#include "stages/programs/batch/batch_session.h"
#include "stages/programs/batch/queue_inbox.h"
#include "stages/programs/run/stage_main.h"
#include "stages/programs/sampling/speculation_options.h"
#include "stages/programs/serve/serve_run.h"

namespace specdec {
namespace {

int run(const RunOptions& options) {
  check_speculation_options(speculation_options(options));
  if (options.check) return check_batched_verification(options);
  if (!options.serve.empty()) return serve_run(options);
  ModelFiles files = open_model(options.target);
  QueueInbox inbox(options, files);
  BatchSession session(sized_for(inbox.requests(), options), std::move(files));
  BatchReport report(session, inbox.requests());
  report.begin();
  inbox.report_to(report);
  serve(session.engine, inbox);
  return report.finish();
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  return specdec::stage_main(
      6, "Many requests at once: each pass of the target verifies drafts of all of them.", argc,
      argv, specdec::run, specdec::sampling_listings());
}
