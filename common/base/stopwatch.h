#pragma once
#include <chrono>

namespace specdec {

// Adds the seconds from its construction to its destruction to a counter.
class Stopwatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += seconds_since(start_); }

  static Time now() { return std::chrono::steady_clock::now(); }
  static double seconds_since(Time start) {
    return std::chrono::duration<double>(now() - start).count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  Time start_ = now();
};

}  // namespace specdec
