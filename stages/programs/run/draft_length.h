#pragma once
#include "stages/programs/run/options.h"

namespace specdec {

// What chooses K of each round: --draft-length, or gain with --spec-length auto.
DraftLength draft_length_of(const RunOptions& options);

// The most drafts of a round: K, or the largest K that a policy may choose.
int largest_spec_length(const RunOptions& options);
// The same for a run; 0 with --no-speculation.
int spec_length_of(const RunOptions& options);

// Throws Error if the options about K contradict each other or are out of range.
void check_draft_length(const RunOptions& options);

}  // namespace specdec
