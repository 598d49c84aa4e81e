#pragma once
#include <memory>
#include <span>

#include "stages/10_beam_search/rounds_with_beams.h"
#include "stages/programs/batch/batch_session.h"
#include "stages/programs/self/self_draft.h"

namespace specdec {

// The request of a command line or of a line of --requests: a search if it has beams, else one
// text. Throws Error as to_batch_request() and check_widths().
BatchRequest to_beam_request(const ModelFiles& files, const RunOptions& options);

// The engine for a run of many requests, of which some are searches.
class BeamBatch {
 public:
  // Sizes are those of the requests, unless the options say otherwise. Throws Error as
  // BatchSession.
  BeamBatch(const RunOptions& options, ModelFiles files, std::span<const BatchRequest> requests);

  BatchSession& session() { return *session_; }

 private:
  BatchParts parts(int at_a_time);
  std::shared_ptr<BeamDrafter> make_drafter(BatchSession& session);
  std::shared_ptr<BeamDrafter> make_for_each(BatchSession& session);

  // What searches need, at most max_batch of them at a time.
  int draft_rows_ = 0;       // of a pass of the draft
  int cached_by_draft_ = 0;  // the most that one of them caches there
  RunOptions widest_;        // those of the search with the most beams
  const SelfDraft self_;
  std::unique_ptr<BatchSession> session_;
};

// Serves the batch of the command line. Returns the exit code. Throws Error.
int serve_beams(const RunOptions& options);

}  // namespace specdec
