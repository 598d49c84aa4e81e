#pragma once
#include "stages/programs/adaptive/cost_profile.h"
#include "stages/programs/speculation/draft_setup.h"

namespace specdec {

// The costs of drafts and passes of these models on this machine, for a batch of `requests`. Heads
// have a cost per round and a cost per draft, a line through what few and many drafts take. They
// come from the file of --cost-profile, or from the file kept next to the programs. If there is
// none, they are measured, which takes a second or two, or longer for slow models; a terminal shows
// the progress. With --rows auto they include those of passes over up to spec_length drafts of each
// request, and the other costs follow from these. Notes go to stderr. Throws Error if
// --cost-profile is damaged, lacks what --rows auto needs, or is not writable.
CostProfile load_or_measure_costs(const RunOptions& options, const ModelFiles& files,
                                  const LlamaModel& target, const DraftSetup& draft,
                                  int requests = 1, int spec_length = 0);

}  // namespace specdec
