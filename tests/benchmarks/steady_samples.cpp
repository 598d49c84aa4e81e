#include "tests/benchmarks/steady_samples.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <iostream>

#include <fmt/format.h>

namespace specdec {
namespace {

bool steady(double before, double after) {
  return std::abs(after - before) <= 0.06 * std::min(before, after);
}

// What a sample of a job gave.
struct Sample {
  double one = 0, many = 0;  // seconds of one row, and of the job
  double bandwidth = 0, peak = 0;
  bool is_steady = false;
};

// One row, then the job, between two looks at the machine. Is taken again, a few times, where the
// machine was not steady.
Sample take_sample(Machine& machine, const KernelProgram::Job& job, int rows, int runs) {
  constexpr int kAttempts = 4;
  const auto seconds_of_runs = [&](int m) {
    return seconds_of([&] {
             for (int i = 0; i < runs; ++i) job(m);
           }) /
           runs;
  };
  Sample sample;
  for (int attempt = 0; attempt < kAttempts && !sample.is_steady; ++attempt) {
    const double before = machine.bandwidth, peak_before = machine.flops;
    sample.one = seconds_of_runs(1);
    sample.many = seconds_of_runs(rows);
    machine.look();
    sample.bandwidth = (before + machine.bandwidth) / 2;
    sample.peak = (peak_before + machine.flops) / 2;
    sample.is_steady = steady(before, machine.bandwidth) && steady(peak_before, machine.flops);
  }
  return sample;
}

void measure(benchmark::State& state, Machine& machine, const Work& work,
             const KernelProgram::Job& job) {
  Samples samples;
  for (const char* name : {"seconds", "bandwidth", "peak", "bytes_per_second", "flops_per_second",
                           "of_bandwidth", "of_peak", "of_bound", "over_plain"}) {
    samples[name];
  }
  const int rows = static_cast<int>(state.range(0));
  job(1);
  // For some 20 ms, as a few runs may be disturbed by anything.
  const int runs = static_cast<int>(std::clamp(0.02 / seconds_of([&] { job(rows); }), 1.0, 1000.0));
  machine.look();
  for (auto _ : state) {
    const Sample sample = take_sample(machine, job, rows, runs);
    state.SetIterationTime(sample.many);
    if (!sample.is_steady) continue;
    const double bytes_seconds = work.bytes / sample.bandwidth;
    const double flops_seconds = work.flops / sample.peak;
    samples["seconds"].push_back(sample.many);
    samples["bandwidth"].push_back(sample.bandwidth);
    samples["peak"].push_back(sample.peak);
    samples["bytes_per_second"].push_back(work.bytes / sample.many);
    samples["flops_per_second"].push_back(work.flops / sample.many);
    samples["of_bandwidth"].push_back(bytes_seconds / sample.many);
    samples["of_peak"].push_back(flops_seconds / sample.many);
    samples["of_bound"].push_back(sample.many / std::max(bytes_seconds, flops_seconds));
    samples["over_plain"].push_back(sample.many / sample.one);
  }
  samples.report(state);
  state.counters["samples"] = static_cast<double>(samples["seconds"].size());
}

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
      ++answers;
    }
  }

  int answers = 0;
};

// Whether an option is among the arguments; it is taken out of them.
bool take(int& argc, char** argv, std::string_view option) {
  char** const end = argv + argc;
  char** const found = std::find(argv + 1, end, option);
  if (found == end) return false;
  std::copy(found + 1, end, found);
  --argc;
  return true;
}

// What the machine is made with, as it takes seconds to make.
int threads_of(int& argc, char** argv) {
  const int threads = take_number(argc, argv, "--threads", 0);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) std::exit(2);
  return threads;
}

}  // namespace

Machine::Machine(int threads) : sweep_(threads), peak_(threads) {
  const auto warm = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < warm) look();
}

KernelProgram::KernelProgram(int argc, char** argv, int samples)
    : by_turns_(take(argc, argv, "--by-turns")),
      samples_(std::max(1, take_number(argc, argv, "--samples", samples))),
      machine_(threads_ = threads_of(argc, argv)) {}

void KernelProgram::add(const std::string& name, const std::vector<std::int64_t>& rows,
                        int iterations, const std::function<void(benchmark::State& state)>& run) {
  auto* added = benchmark::RegisterBenchmark(name.c_str(), run);
  for (const std::int64_t m : rows) added->Arg(m);
  if (!rows.empty()) added->ArgName("M");
  added->Iterations(iterations)->UseManualTime()->Unit(benchmark::kMillisecond);
}

void KernelProgram::add(const std::string& name, const std::vector<std::int64_t>& rows,
                        const std::function<Work(int rows)>& work, const Job& job) {
  add(name, rows, samples_, [this, work, job](benchmark::State& state) {
    measure(state, machine_, work(static_cast<int>(state.range(0))), job);
  });
}

int KernelProgram::run(const std::string& backend) const {
  benchmark::AddCustomContext("backend", backend);
  if (!by_turns_) {
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  }
  std::cout << fmt::format("{{\"backend\": \"{}\"}}", backend) << std::endl;
  Lines lines;
  int asked = 0;
  for (std::string name; std::getline(std::cin, name);) {
    benchmark::RunSpecifiedBenchmarks(&lines, name);
    if (lines.answers == ++asked) continue;
    std::cerr << name << ": the benchmark failed, or is not exactly one\n";
    return 1;
  }
  return 0;
}

std::vector<std::uint16_t> random_halves(std::size_t count) {
  std::vector<std::uint16_t> values(count);
  std::uint32_t state = 1;
  for (std::uint16_t& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<std::uint16_t>(0x3d00u | (state >> 24) | (state >> 16 & 0x8000u));
  }
  return values;
}

int take_number(int& argc, char** argv, std::string_view name, int otherwise) {
  int value = otherwise;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(name) || argument.substr(name.size(), 1) != "=") continue;
    const std::string_view number = argument.substr(name.size() + 1);
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), value);
    if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size() || value < 0) {
      std::fprintf(stderr, "%s: %s is no number\n", argv[0], argv[i]);
      std::exit(2);
    }
    std::copy(argv + i + 1, argv + argc, argv + i);
    --argc;
    --i;
  }
  return value;
}

}  // namespace specdec
