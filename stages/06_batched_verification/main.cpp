// Stage 6: batched continuous verification. Many requests share every pass of the target; each one
// accepts its own number of drafts, and gets the tokens that it would have got alone.

#include "stages/programs/batch/arrivals.h"
#include "stages/programs/batch/batch_check.h"
#include "stages/programs/batch/batch_report.h"
#include "stages/programs/batch/batch_session.h"
#include "stages/programs/run/stage_main.h"
#include "stages/programs/sampling/speculation_options.h"

namespace specdec {
namespace {

// [snippet serve]
void serve(BatchEngine& engine, std::span<const QueuedRequest> queue,
           std::span<const std::size_t> by_arrival, BatchReport& report) {
  std::size_t next = 0;
  while (next < by_arrival.size() || !engine.idle()) {
    for (; next < by_arrival.size(); next++) {
      const QueuedRequest& queued = queue[by_arrival[next]];
      if (queued.arrival > engine.now()) break;
      try {
        if (!queued.request) fail("{}", queued.error);
        report.added(
            by_arrival[next],
            engine.add_request(*queued.request, report.delivery(by_arrival[next]), queued.arrival));
      } catch (const Error& error) {
        report.refused(by_arrival[next], error.what());
      }
    }
    if (!engine.idle()) {
      report.after_step(engine.step());  // a round for every running request
    } else if (next < by_arrival.size()) {
      sleep_until(engine, queue[by_arrival[next]].arrival);
    }
  }
}
// [end snippet serve]

int run(const RunOptions& options) {
  check_speculation_options(speculation_options(options));
  if (options.check) return check_batched_verification(options);
  ModelFiles files = open_model(options.target);
  std::vector<QueuedRequest> queue = queue_requests(options, files);
  BatchSession session(options, std::move(queue), std::move(files));
  BatchReport report(session);
  report.begin();
  serve(session.engine, session.queue, by_arrival(session.queue), report);
  return report.finish();
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  return specdec::stage_main(
      6, "Many requests at once: each pass of the target verifies drafts of all of them.", argc,
      argv, specdec::run);
}
