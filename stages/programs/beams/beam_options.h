#pragma once
#include "common/generation_request.h"
#include "stages/10_beam_search/beam_search.h"
#include "stages/programs/run/options.h"
#include "stages/programs/run/request.h"
#include "stages/programs/speculation/draft_setup.h"

namespace specdec {

// The same options, with the default of --beams. In a batch, a request without beams is no search.
RunOptions with_beams(RunOptions options);

// The widths of --beams and --draft-beams, and the rules of the other options about beams.
BeamOptions beam_options(const RunOptions& options);
int draft_width(const RunOptions& options);

// Throws Error for options about beams that contradict each other or the vocabulary; the second one
// also if a pass of one request has fewer rows.
void check_widths(const RunOptions& options, const ModelFiles& files);
void check_beam_options(const RunOptions& options, const ModelFiles& files);

// The capacity for one request: beams may have nothing in common but the prompt.
Capacity beam_capacity(const RunOptions& options, const ModelFiles& files,
                       const GenerationRequest& request);

// Whether the drafter drafts for each beam by itself, and not for all of them in a search of its
// own.
bool drafts_for_each(const RunOptions& options);

// The same for the drafter: one that drafts for each beam follows a text of each, and the one
// before.
Capacity draft_capacity(const RunOptions& options, Capacity capacity);

// Drafting for beams: --draft-kind may be ngram, and lookup and heads draft several continuations.
Drafting beam_drafting(const RunOptions& options);

}  // namespace specdec
