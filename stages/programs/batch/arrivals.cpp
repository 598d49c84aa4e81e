#include "stages/programs/batch/arrivals.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace specdec {

std::vector<std::size_t> by_arrival(std::span<const QueuedRequest> queue) {
  std::vector<std::size_t> order(queue.size());
  for (std::size_t i = 0; i < order.size(); i++) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return queue[i].arrival; });
  return order;
}

void sleep_until(const BatchEngine& engine, double time) {
  std::this_thread::sleep_for(std::chrono::duration<double>(time - engine.now()));
}

}  // namespace specdec
