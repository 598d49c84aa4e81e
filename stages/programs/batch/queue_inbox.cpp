#include "stages/programs/batch/queue_inbox.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "common/base/error.h"

namespace specdec {

QueueInbox::QueueInbox(std::span<const QueuedRequest> queue, BatchReport& report)
    : queue_(queue), report_(report), by_arrival_(queue.size()) {
  std::iota(by_arrival_.begin(), by_arrival_.end(), std::size_t{0});
  std::ranges::stable_sort(by_arrival_, {}, [&](std::size_t i) { return queue[i].arrival; });
}

void QueueInbox::add_arrived(BatchEngine& engine) {
  for (; !is_empty(); ++next_) {
    const std::size_t place = by_arrival_[next_];
    const QueuedRequest& queued = queue_[place];
    if (queued.arrival > engine.now()) return;
    try {
      if (!queued.request) fail("{}", queued.error);
      report_.added(place,
                    engine.add_request(*queued.request, report_.delivery(place), queued.arrival));
    } catch (const Error& error) {
      report_.refused(place, error.what());
    }
  }
}

void QueueInbox::wait(const BatchEngine& engine) {
  const double arrival = queue_[by_arrival_[next_]].arrival;
  std::this_thread::sleep_for(std::chrono::duration<double>(arrival - engine.now()));
}

}  // namespace specdec
