#pragma once
#include <filesystem>
#include <memory>

#include "stages/09_self_drafting/heads_model.h"
#include "stages/programs/batch/batch_session.h"
#include "stages/programs/speculation/session.h"

namespace specdec {

// The same options, with heads as --draft-kind unless another kind is given.
RunOptions with_heads(RunOptions options);

// What makes a target draft for itself, from the command line: heads that draft, and a target that
// keeps the rows which they read. If --draft-kind is not heads, nothing changes.
class SelfDraft {
 public:
  // Throws Error for options that heads have no use for. levels: of a round's drafts. REQUIRES: the
  // options outlive this object.
  SelfDraft(const RunOptions& options, int levels);

  // The same parts, for heads. REQUIRES: this object outlives the session.
  SessionParts parts(SessionParts parts);
  BatchParts parts(BatchParts parts);

 private:
  Drafting drafting(Drafting drafting);
  WatchTarget watch();

  const RunOptions& options_;
  bool has_heads_;
  std::filesystem::path folder_;
  int levels_;
  HeadsModel* heads_ = nullptr;  // of the session
};

}  // namespace specdec
