#pragma once
#include "stages/06_batched_verification/batch_engine.h"

namespace specdec {

// Aborts, saying what is wrong, unless everything is in order between two steps: states and queues,
// lengths of both caches, owners of every page, counts of tokens. Reads no page's contents.
void check_invariants(const BatchEngine& engine);

}  // namespace specdec
