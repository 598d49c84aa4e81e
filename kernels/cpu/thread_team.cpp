#include "kernels/cpu/thread_team.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include <sched.h>

#include "kernels/cpu/require.h"

namespace specdec::cpu {
namespace {

// Tells the core that this is a spin loop.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins for about 50 us, longer than a job that is about to end takes. After that it yields the
// core between checks, because the awaited thread may have no core.
class Spinner {
 public:
  void wait() {
    if (spins_ < kPatience) {
      ++spins_;
      pause();
    } else {
      sched_yield();
    }
  }

 private:
  static constexpr int kPatience = 2000;
  int spins_ = 0;
};

int usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return std::thread::hardware_concurrency();  // for more than 1,024 cores
}

// How long workers keep spinning after a burst: programs call a model repeatedly, and waking a
// worker takes as long as a small model's matrix product.
constexpr std::chrono::microseconds kAfterBurst{200};

}  // namespace

int most_threads() { return std::max(16, 4 * usable_cores()); }

ThreadTeam::ThreadTeam(int threads) {
  require(threads >= 0, "threads >= 0");
  wanted_ = threads == 0 ? std::max(1, usable_cores()) : threads;
  threads = std::min(wanted_, most_threads());
  claims_ = std::vector<Claim>(threads - 1);
  next_ = std::vector<Next>(threads);
  workers_.reserve(threads - 1);
  try {
    for (int thread = 1; thread < threads; ++thread) {
      workers_.emplace_back([this, thread] { work(thread); });
    }
  } catch (const std::system_error&) {
    // A limit on processes or memory. The team stays smaller; no result depends on its size.
  }
}

ThreadTeam::~ThreadTeam() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    job_number_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::begin_burst() {
  if (++burst_depth_ > 1 || workers_.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    in_burst_.store(true, std::memory_order_relaxed);
  }
  wake_.notify_all();
}

void ThreadTeam::end_burst() {
  require(burst_depth_ > 0, "a burst that was begun");
  if (--burst_depth_ == 0) in_burst_.store(false, std::memory_order_relaxed);
}

void ThreadTeam::run(Function function, const void* context) {
  if (workers_.empty()) return function(context, 0);
  function_ = function;
  context_ = context;
  still_working_.store(size() - 1, std::memory_order_relaxed);
  if (burst_depth_ > 0) {
    // No worker falls asleep in a burst: it checks in_burst_ under the mutex first.
    job_number_.fetch_add(1, std::memory_order_release);
  } else {
    {
      const std::lock_guard lock(mutex_);
      job_number_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
  }
  function(context, 0);
  // A worker without a core may start late, so the caller takes its share.
  const std::uint32_t job = job_number_.load(std::memory_order_relaxed);
  for (int thread = 1; thread < size(); ++thread) {
    if (!claim(thread, job)) continue;
    function(context, thread);
    still_working_.fetch_sub(1, std::memory_order_relaxed);
  }
  for (Spinner spinner; still_working_.load(std::memory_order_acquire) != 0;) spinner.wait();
}

// Whether the caller of this function is the first to begin the thread's share of a job. Only then
// may it read function_ and context_, because the job cannot end before this share is done.
bool ThreadTeam::claim(int thread, std::uint32_t job) {
  std::uint32_t before = job - 1;
  return claims_[thread - 1].job.compare_exchange_strong(before, job, std::memory_order_acq_rel,
                                                         std::memory_order_relaxed);
}

void ThreadTeam::work(int thread) {
  for (std::uint32_t seen = 0;; ++seen) {
    wait_for_job(seen);
    if (!claim(thread, seen + 1)) continue;  // the caller was faster
    if (stop_) return;
    function_(context_, thread);
    still_working_.fetch_sub(1, std::memory_order_release);
  }
}

// Returns when the job after number `seen` has arrived.
void ThreadTeam::wait_for_job(std::uint32_t seen) {
  const auto job_came = [&] { return job_number_.load(std::memory_order_acquire) != seen; };
  for (;;) {
    for (Spinner spinner; in_burst_.load(std::memory_order_relaxed); spinner.wait()) {
      if (job_came()) return;
    }
    const auto end = std::chrono::steady_clock::now() + kAfterBurst;
    for (Spinner spinner; std::chrono::steady_clock::now() < end; spinner.wait()) {
      if (job_came()) return;
    }
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return job_came() || in_burst_.load(std::memory_order_relaxed); });
    if (job_came()) return;
  }
}

}  // namespace specdec::cpu
