#pragma once
#include <span>
#include <vector>

#include "stages/programs/batch/batch_session.h"

namespace specdec {

// The places of the requests in the queue, in the order in which they arrive.
std::vector<std::size_t> by_arrival(std::span<const QueuedRequest> queue);

// Sleeps until the engine's clock shows `time`.
void sleep_until(const BatchEngine& engine, double time);

}  // namespace specdec
