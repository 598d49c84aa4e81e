#pragma once
#include "stages/programs/adaptive/cost_profile.h"
#include "stages/programs/speculation/draft_setup.h"

namespace specdec {

// What drafts and passes cost these models here, for this many requests side by side: from the file
// that the options name, or the one kept beside the programs; measured where there is none, which
// takes a second or two (more for models whose passes do), with progress on a terminal. Notes go to
// stderr. Throws Error for a --cost-profile that is damaged or cannot be written.
CostProfile load_or_measure_costs(const RunOptions& options, const ModelFiles& files,
                                  const LlamaModel& target, const DraftSetup& draft,
                                  int requests = 1);

}  // namespace specdec
