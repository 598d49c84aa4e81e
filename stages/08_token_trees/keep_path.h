#pragma once
#include "common/speculation/round.h"
#include "common/speculation/round_caches.h"

namespace specdec {

// Ends a round: both caches keep the accepted path and roll back all other nodes.
void keep_path(const Round& round, const RoundCaches& caches);

}  // namespace specdec
