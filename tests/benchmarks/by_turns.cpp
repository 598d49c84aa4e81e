#include "tests/benchmarks/by_turns.h"

#include <cmath>
#include <iostream>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

namespace specdec {
namespace {

// A line for each benchmark that ran and did not fail: those that fail set no counters.
class Lines final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& /*context*/) override { return true; }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.counters.empty()) continue;
      std::string line = fmt::format("{{\"name\": \"{}\"", run.benchmark_name());
      for (const auto& [name, counter] : run.counters) {
        const double value = counter.value;
        line += fmt::format(", \"{}\": {}", name,
                            std::isfinite(value) ? fmt::format("{:.9g}", value) : "null");
      }
      std::cout << line << '}' << std::endl;
      ++answers_;
    }
  }

  int answers() const { return answers_; }

 private:
  int answers_ = 0;
};

}  // namespace

bool take_by_turns(int& argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) != "--by-turns") continue;
    for (int next = i + 1; next < argc; ++next) argv[next - 1] = argv[next];
    --argc;
    return true;
  }
  return false;
}

int run_registered(bool by_turns, const std::string& backend) {
  benchmark::AddCustomContext("backend", backend);
  if (!by_turns) {
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  }
  std::cout << fmt::format("{{\"backend\": \"{}\"}}", backend) << std::endl;
  Lines lines;
  int asked = 0;
  for (std::string name; std::getline(std::cin, name);) {
    benchmark::RunSpecifiedBenchmarks(&lines, name);
    if (lines.answers() == ++asked) continue;
    std::cerr << name << ": the benchmark failed, or is not exactly one\n";
    return 1;
  }
  return 0;
}

}  // namespace specdec
