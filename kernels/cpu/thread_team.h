#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace specdec::cpu {

// Four for each core that this process may use, or 16: beyond that, threads only take the cores
// from each other.
int most_threads();

// A fixed team of threads that runs one job at a time, many thousand times a second.
//
// Inside a burst the workers spin, so that handing them a job costs well under a microsecond where
// each has a core of its own; where it has not, they give the core away after a while, and the
// caller does the part of a worker that has not begun. Outside bursts they sleep, and a job wakes
// them (some 50 us).
//
// One thread at a time may call. Jobs must not throw, nor call the team.
class ThreadTeam {
 public:
  // threads: the calling one included; 0: one for each usable core. It has fewer where they are
  // more than most_threads(), or than the system gives.
  explicit ThreadTeam(int threads);
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam();

  int size() const { return static_cast<int>(workers_.size()) + 1; }
  int wanted() const { return wanted_; }

  // Bursts may nest.
  void begin_burst();
  void end_burst();

  // Calls job(i) once for each i in 0 .. size() - 1, 0 in the calling thread. What was written
  // before is seen by the jobs, and what they wrote is seen when it returns.
  template <typename Job>
  void run(const Job& job) {
    run([](const void* context, int thread) { (*static_cast<const Job*>(context))(thread); }, &job);
  }

  // Calls job(begin, end) with ranges that cover 0 .. count - 1, one of about equal size a thread.
  template <typename Job>
  void run_ranges(std::int64_t count, const Job& job) {
    const std::int64_t threads = size();
    run([&](int thread) {
      const std::int64_t begin = count * thread / threads, end = count * (thread + 1) / threads;
      if (begin < end) job(begin, end);
    });
  }

  // [snippet run-stealing]
  // Calls job(i) once for each i in 0 .. count - 1, with work stealing: a thread begins in a range
  // of its own, one after the other; when that is done it steals what is left of the others', so
  // that none waits for longer than a job takes.
  template <typename Job>
  void run_stealing(std::int64_t count, const Job& job) {
    const std::int64_t threads = size();
    for (std::int64_t t = 0; t < threads; ++t) {
      next_[static_cast<std::size_t>(t)].job.store(count * t / threads, std::memory_order_relaxed);
    }
    run([&](int thread) {
      for (std::int64_t t = thread; t < thread + threads; ++t) {
        const std::int64_t range = t % threads, end = count * (range + 1) / threads;
        std::atomic<std::int64_t>& next = next_[static_cast<std::size_t>(range)].job;
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
  // Written by the caller before it raises job_number_, read by the workers after they saw that.
  Function function_ = nullptr;
  const void* context_ = nullptr;
  bool stop_ = false;
  int burst_depth_ = 0;

  alignas(64) std::atomic<std::uint32_t> job_number_ = 0;
  alignas(64) std::atomic<int> still_working_ = 0;
  alignas(64) std::atomic<bool> in_burst_ = false;

  // The number of the last job of which a worker's part was begun, by the worker or the caller.
  struct alignas(64) Claim {
    std::atomic<std::uint32_t> job = 0;
  };
  std::vector<Claim> claims_;  // [workers]

  // Of each thread's range in run_stealing, the first job that nobody has begun.
  struct alignas(64) Next {
    std::atomic<std::int64_t> job = 0;
  };
  std::vector<Next> next_;  // [threads]

  std::mutex mutex_;  // guards the decision to sleep
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
};

}  // namespace specdec::cpu
