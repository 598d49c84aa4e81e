#pragma once
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/json_value.h"

// What a probe says about a stage's code: facts, one JSON object a line. It judges nothing; that is
// done by a process that never loads this code (student/checks.py).
namespace specdec::course {

// name: a short sentence for people, unique within the check. It follows from check and seed alone,
// never from what the code under check computes.
// value: an integer, a string, a list of integers, or floats().
inline void fact(const std::string& name, const Json& value) {
  const Json line = {{"fact", name}, {"value", value}};
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);  // what is known stays known if the next step crashes
}

// Numbers that may differ by rounding: ||got - want|| <= tolerance * ||want||. Seven digits of
// each; NaN becomes null, which is no number.
template <typename Values>
Json floats(const Values& values, double tolerance = 1e-5) {
  Json list = Json::array();
  for (const double value : values) list.push_back(std::stod(fmt::format("{:.7g}", value)));
  return {{"floats", list}, {"tolerance", tolerance}};
}

// What becomes of a call that breaks a precondition: it runs in a process of its own.
template <typename Call>
std::string fate(const Call& call) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::freopen("/dev/null", "w", stderr);  // what it says is not this program's
    call();
    std::_Exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? "refused" : "accepted";
}

// A check's facts, for a scene that the seed makes.
struct Probe {
  std::string_view check;
  void (*run)(std::uint64_t seed);
};

// main() of a probe program: CHECK SEED. Exit code 1 when the stage's code throws.
inline int run_probes(int argc, char** argv, std::initializer_list<Probe> probes) {
  try {
    for (const Probe& probe : probes) {
      if (argc != 3 || argv[1] != probe.check) continue;
      probe.run(std::strtoull(argv[2], nullptr, 10));
      return 0;
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  fmt::print(stderr, "usage: {} CHECK SEED, where CHECK is one of\n", argv[0]);
  for (const Probe& probe : probes) fmt::print(stderr, "  {}\n", probe.check);
  return 2;
}

}  // namespace specdec::course
