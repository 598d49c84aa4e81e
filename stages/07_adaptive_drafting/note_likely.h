#pragma once
#include "common/speculation/likely_tokens.h"
#include "common/speculation/round.h"
#include "stages/06_batched_verification/batched_rounds.h"

namespace specdec {

// Call after a round is judged. Notes the target's k likeliest tokens at the position of each
// emitted token, the lower id first among equals. logits: [drafts + 1, V] of the round.
// REQUIRES: all earlier tokens are noted or belong to the prompt; V >= k.
void note_likely(const Round& round, ConstDeviceRows logits, Backend& backend,
                 LikelyTokens& likely);

// Like `judging`, but then notes the target's k likeliest tokens at each position for each
// request's drafter. The notes belong to the request, so they survive preemption. REQUIRES: the
// backend outlives the result.
Judging with_notes(Judging judging, Backend& backend, int k);

}  // namespace specdec
