#pragma once
#include "common/speculation/round.h"
#include "common/speculation/round_caches.h"

namespace specdec {

// Ends a round: both caches keep the path that was accepted, and no other node.
void keep_path(const Round& round, const RoundCaches& caches);

}  // namespace specdec
