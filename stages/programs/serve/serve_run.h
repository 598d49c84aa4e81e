#pragma once
#include <functional>

#include "stages/programs/batch/batch_session.h"
#include "stages/programs/batch/queue_inbox.h"

namespace specdec {

// How a stage serves: as it serves a batch from a file.
struct ServedStage {
  MakeBatchRequest make = to_batch_request;  // the server's thread calls it
  BatchParts parts = {};
  std::function<void(BatchSession&)> begin = {};  // before the first request
};

// The run of a stage with --serve: listens, loads the models, says where it serves, and serves
// until SIGINT or SIGTERM, which cancels what runs. Returns the exit code. Throws Error: bad
// options and files, an address at which it cannot listen.
//
// of_stage gets the options of a request that leaves everything out, and with a prompt.
int serve_run(
    const RunOptions& options,
    const std::function<ServedStage(const ModelFiles& files, const RunOptions& usual)>& of_stage =
        [](const ModelFiles&, const RunOptions&) { return ServedStage(); });

}  // namespace specdec
