#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/int_size.h"

namespace specdec::cpu {

// Four for each core that this process may use, and at least 16. More threads would only take the
// cores from each other.
int most_threads();

// A fixed team of threads that runs one job at a time, many thousands of times per second.
//
// Inside a burst, the workers spin, so if each has its own core, starting a job costs well under a
// microsecond. If a worker has no core, the others yield theirs after a while, and the caller takes
// the share of a worker that has not begun. Outside bursts, the workers sleep, and waking them
// takes about 50 us.
//
// Only one thread at a time may call the team. Jobs must not throw, and must not call the team.
class ThreadTeam {
 public:
  // threads: including the calling one; 0: one for each usable core. The team is smaller if that is
  // more than most_threads(), or more than the system grants.
  explicit ThreadTeam(int threads);
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam();

  int size() const { return int_size(workers_) + 1; }
  int wanted() const { return wanted_; }

  // Bursts may nest.
  void begin_burst();
  void end_burst();

  // Calls job(i) once for each i in 0 .. size() - 1, with 0 in the calling thread. Jobs see all
  // earlier writes of the caller, which sees the jobs' writes when run() returns.
  template <typename Job>
  void run(const Job& job) {
    run([](const void* context, int thread) { (*static_cast<const Job*>(context))(thread); }, &job);
  }

  // Calls job(begin, end) with ranges that cover 0 .. count - 1, one range of about equal size per
  // thread.
  template <typename Job>
  void run_ranges(std::int64_t count, const Job& job) {
    const std::int64_t threads = size();
    run([&](int thread) {
      const std::int64_t begin = count * thread / threads, end = count * (thread + 1) / threads;
      if (begin < end) job(begin, end);
    });
  }

  // [snippet run-stealing]
  // Calls job(i) once for each i in 0 .. count - 1, with work stealing: each thread starts with a
  // range of its own. When that is done, it steals jobs that are left in the ranges of others, so
  // no thread waits longer than one job takes.
  template <typename Job>
  void run_stealing(std::int64_t count, const Job& job) {
    const std::int64_t threads = size();
    for (std::int64_t t = 0; t < threads; ++t) {
      next_[t].job.store(count * t / threads, std::memory_order_relaxed);
    }
    run([&](int thread) {
      for (std::int64_t t = thread; t < thread + threads; ++t) {
        const std::int64_t range = t % threads, end = count * (range + 1) / threads;
        std::atomic<std::int64_t>& next = next_[range].job;
        for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < end;) job(i);
      }
    });
  }
  // [end snippet run-stealing]

 private:
  using Function = void (*)(const void* context, int thread);

  void run(Function function, const void* context);
  void work(int thread);
  bool claim(int thread, std::uint32_t job);
  void wait_for_job(std::uint32_t seen);

  int wanted_ = 0;
  // The caller writes these before it increments job_number_; the workers read them afterwards.
  Function function_ = nullptr;
  const void* context_ = nullptr;
  bool stop_ = false;
  int burst_depth_ = 0;

  alignas(64) std::atomic<std::uint32_t> job_number_ = 0;
  alignas(64) std::atomic<int> still_working_ = 0;
  alignas(64) std::atomic<bool> in_burst_ = false;

  // The number of the last job in which a worker's share was begun, by the worker or the caller.
  struct alignas(64) Claim {
    std::atomic<std::uint32_t> job = 0;
  };
  std::vector<Claim> claims_;  // [workers]

  // In run_stealing(), the first job of each thread's range that no thread has begun.
  struct alignas(64) Next {
    std::atomic<std::int64_t> job = 0;
  };
  std::vector<Next> next_;  // [threads]

  std::mutex mutex_;  // guards the decision to sleep
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
};

}  // namespace specdec::cpu
