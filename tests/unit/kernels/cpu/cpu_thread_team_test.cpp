#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_team.h"

namespace specdec::cpu {
namespace {

TEST(CpuThreadTeam, CountsUsableCores) {
  cpu_set_t cores;
  ASSERT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
  EXPECT_EQ(ThreadTeam(0).size(), CPU_COUNT(&cores));
  EXPECT_EQ(ThreadTeam(5).size(), 5);

  // One core allowed: one thread.
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core) {
    if (CPU_ISSET(core, &cores)) CPU_SET(core, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(ThreadTeam(0).size(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof cores, &cores), 0);
}

TEST(CpuThreadTeam, HasNoMoreThreadsThanTheCoresCanUse) {
  const ThreadTeam team(1000);
  EXPECT_EQ(team.size(), std::min(1000, most_threads()));
  EXPECT_EQ(team.wanted(), 1000);
  EXPECT_NE(make_cpu_backend(1000)->warning(), "");
  EXPECT_EQ(make_cpu_backend(2)->warning(), "");
}

// Leaves memory for few more stacks, and says whether a team still does all of a job.
[[noreturn]] void run_where_threads_are_few() {
  std::ifstream status("/proc/self/statm");
  rlim_t pages = 0;
  status >> pages;
  constexpr rlim_t kRoom = 24 << 20;  // a stack takes 8 MiB, a new thread's heap is optional
  const rlim_t bytes = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kRoom;
  const rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_AS, &limit);
  ThreadTeam team(16);
  std::atomic<int> done = 0;
  team.run_ranges(
      1000, [&](std::int64_t begin, std::int64_t end) { done += static_cast<int>(end - begin); });
  std::_Exit(done == 1000 && team.size() < 16 && team.wanted() == 16 ? 0 : 1);
}

TEST(CpuThreadTeamDeathTest, GoesOnWithTheThreadsThatTheSystemGives) {
  EXPECT_EXIT(run_where_threads_are_few(), ::testing::ExitedWithCode(0), "");
}

TEST(CpuThreadTeam, NameSaysWhatItIs) {
  EXPECT_EQ(make_cpu_backend(1)->name().substr(0, 15), "CPU, 1 thread, ");
  EXPECT_EQ(make_cpu_backend(2)->name().substr(0, 16), "CPU, 2 threads, ");
}

// Plain ints: if two threads got the same index, or run() returned early, ThreadSanitizer and the
// counts tell.
void run_jobs(ThreadTeam& team, int jobs, std::vector<int>& calls) {
  for (int job = 0; job < jobs; ++job) {
    team.run([&](int thread) { ++calls[static_cast<std::size_t>(thread)]; });
    for (const int count : calls) ASSERT_EQ(count, calls[0]);
  }
}

TEST(CpuThreadTeam, EveryThreadRunsEveryJobOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadTeam team(threads);
    std::vector<int> calls(static_cast<std::size_t>(threads), 0);
    for (int burst = 0; burst < 100; ++burst) {
      run_jobs(team, 2, calls);  // outside of bursts
      team.begin_burst();
      run_jobs(team, burst % 20, calls);
      team.begin_burst();
      run_jobs(team, 1, calls);
      team.end_burst();
      run_jobs(team, 1, calls);  // still inside the outer one
      team.end_burst();
      // Long enough, sometimes, for the workers to fall asleep, or to be about to.
      if (burst % 10 == 0) std::this_thread::sleep_for(std::chrono::microseconds(burst * 6));
    }
  }
}

TEST(CpuThreadTeam, JobsSeeWhatWasWrittenBefore) {
  ThreadTeam team(3);
  std::array<int, 3> values = {};
  team.begin_burst();
  for (int i = 1; i <= 2000; ++i) {
    const int previous = values[0] + values[1] + values[2];
    ASSERT_EQ(previous, 3 * (i - 1));
    team.run([&](int thread) { values[static_cast<std::size_t>(thread)] = previous / 3 + 1; });
  }
  team.end_burst();
}

TEST(CpuThreadTeam, RangesCoverEverythingOnce) {
  ThreadTeam team(3);
  for (std::int64_t count = 0; count < 100; ++count) {
    std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
    team.run_ranges(count, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
    });
    for (const auto& times : seen) ASSERT_EQ(times, 1);
  }
}

TEST(CpuThreadTeam, EachJobIsDoneOnce) {
  for (const int threads : {1, 2, 3}) {
    ThreadTeam team(threads);
    for (std::int64_t count = 0; count < 100; ++count) {
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
      team.run_stealing(count, [&](std::int64_t i) { ++seen[static_cast<std::size_t>(i)]; });
      for (const auto& times : seen) ASSERT_EQ(times, 1);
    }
  }
}

// While a thread is in its first job, the other does what is left of both ranges.
TEST(CpuThreadTeam, NobodyWaitsForARangeThatLagsBehind) {
  ThreadTeam team(2);
  for (const std::int64_t slow : {0, 50}) {  // the first jobs of the two ranges
    std::atomic<int> done = 0;
    bool stolen = false;
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    team.run_stealing(100, [&](std::int64_t i) {
      if (i == slow) {
        while (done != 99 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        stolen = done == 99;
      } else {
        ++done;
      }
    });
    EXPECT_TRUE(stolen) << "job " << slow;
  }
}

// Workers sleep when no burst is on: a second of idleness must cost next to no processor time.
TEST(CpuThreadTeam, SleepsBetweenBursts) {
  ThreadTeam team(2);
  team.begin_burst();
  team.run([](int) {});
  team.end_burst();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, 0.1);
}

TEST(CpuThreadTeam, IsDestroyedInEveryState) {
  for (int i = 0; i < 100; ++i) {
    ThreadTeam never_used(3);
    ThreadTeam in_burst(2);
    in_burst.begin_burst();
    ThreadTeam just_used(2);
    just_used.run([](int) {});
  }
}

}  // namespace
}  // namespace specdec::cpu
