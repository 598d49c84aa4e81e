#include "tests/benchmarks/kernel_program.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>

#include <CLI/CLI.hpp>

namespace specdec {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Of one run, each on its own inputs.
double seconds_of(Machine& machine, const Job& job, int runs) {
  return machine.seconds_of([&] {
    for (int i = 0; i < runs; ++i) job(i);
  }) / runs;
}

// As many runs as take 20 ms, since a few may be disturbed by anything.
int runs_of(Machine& machine, const Job& job, int most) {
  if (seconds_of(machine, job, 1) > 0.5) return 1;  // scratch is taken, kernels are loaded
  return static_cast<int>(std::clamp(0.02 / seconds_of(machine, job, 1), 1.0, double(most)));
}

using Samples = std::map<std::string, std::vector<double>>;

void keep(const Work& work, double seconds, const Machine::Look& look, Samples& samples) {
  const auto add = [&](const char* name, double value) { samples[name].push_back(value); };
  const double bytes_seconds = work.bytes / look.bandwidth;
  add("seconds", seconds);
  add("bytes_per_second", work.bytes / seconds);
  add("flops_per_second", work.flops / seconds);
  add("bandwidth", look.bandwidth);
  add("of_bandwidth", bytes_seconds / seconds);
  if (look.copy_bandwidth > 0) add("copy_bandwidth", look.copy_bandwidth);
  if (look.peak == 0) return;
  const double flops_seconds = work.flops / look.peak;
  add("peak", look.peak);
  add("of_peak", flops_seconds / seconds);
  add("of_bound", seconds / std::max(bytes_seconds, flops_seconds));
}

// The rivals, then the job, beside a look at the machine. It is taken again, a few times, where the
// machine was not steady.
void take_sample(Machine& machine, const Case& measured, const std::vector<int>& runs,
                 Samples& steady, Samples& unsteady) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    std::vector<double> rivals;
    for (const Rival& rival : measured.rivals) {
      rivals.push_back(seconds_of(machine, rival.job, runs[rivals.size() + 1]));
    }
    const double seconds = seconds_of(machine, measured.job, runs[0]);
    const Machine::Look look = machine.look();
    Samples& samples = look.steady ? steady : unsteady;
    keep(measured.work, seconds, look, samples);
    for (std::size_t i = 0; i < rivals.size(); ++i) {
      samples["over_" + measured.rivals[i].name].push_back(seconds / rivals[i]);
    }
    if (look.steady) return;
  }
}

class Silent final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& /*runs*/) override {}
};

}  // namespace

KernelProgram::KernelProgram(int argc, char** argv, int samples) : samples_(samples) {
  CLI::App app;
  app.set_help_flag();  // Google Benchmark has one
  app.allow_extras();
  app.add_flag("--by-turns", by_turns_);
  app.add_option("--threads", threads_)->check(CLI::NonNegativeNumber);
  app.add_option("--samples", samples_)->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::cerr << argv[0] << ": " << error.what() << "\n";
    std::exit(2);
  }
  std::vector<std::string> rest = app.remaining();
  std::vector<char*> words = {argv[0]};
  for (std::string& word : rest) words.push_back(word.data());
  int count = static_cast<int>(words.size());
  benchmark::Initialize(&count, words.data());
  if (benchmark::ReportUnrecognizedArguments(count, words.data())) std::exit(2);
}

void KernelProgram::add(const std::string& name, const std::vector<std::int64_t>& rows,
                        std::function<Case(int rows)> make) {
  const bool has_rows = !rows.empty();
  auto* added = benchmark::RegisterBenchmark(
      name.c_str(), [this, has_rows, make = std::move(make)](benchmark::State& state) {
        try {
          measure(state, make(has_rows ? static_cast<int>(state.range(0)) : 0));
        } catch (const std::exception& error) {  // no memory, a kernel that fails
          answer_ = {{"error", error.what()}};
          state.SkipWithError(error.what());
        }
      });
  for (const std::int64_t m : rows) added->Arg(m);
  if (has_rows) added->ArgName("M");
  added->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);
}

void KernelProgram::measure(benchmark::State& state, const Case& measured) {
  std::vector<int> runs = {runs_of(*machine_, measured.job, measured.copies)};
  for (const Rival& rival : measured.rivals) {
    runs.push_back(runs_of(*machine_, rival.job, measured.copies));
  }
  machine_->look();
  Samples steady, unsteady;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    const std::chrono::duration<double> most(machine_->most_seconds());
    for (int i = 0; i < samples_; ++i) {
      if (i >= 3 && std::chrono::steady_clock::now() - start > most) break;
      take_sample(*machine_, measured, runs, steady, unsteady);
    }
    state.SetIterationTime(median((steady.empty() ? unsteady : steady)["seconds"]));
  }
  answer_ = {{"samples", steady.empty() ? 0 : steady["seconds"].size()}};
  for (const auto& [name, values] : steady.empty() ? unsteady : steady) {
    answer_[name] = median(values);
  }
  for (const auto& [name, value] : answer_.items()) state.counters[name] = value.get<double>();
}

int KernelProgram::run(Machine& machine, const About& about) {
  machine_ = &machine;
  Json first;
  for (const auto& [name, value] : about) {
    benchmark::AddCustomContext(name, value);
    first[name] = value;
  }
  if (!by_turns_) {
    benchmark::RunSpecifiedBenchmarks();
  } else {
    std::cout << first << std::endl;
    Silent silent;
    for (std::string name; std::getline(std::cin, name);) {
      answer_ = nullptr;
      benchmark::RunSpecifiedBenchmarks(&silent, name);
      if (answer_.is_null()) {
        std::cerr << name << ": no benchmark has this name\n";
        return 1;
      }
      std::cout << answer_ << std::endl;
    }
  }
  benchmark::ClearRegisteredBenchmarks();  // and what they keep, before the backend goes
  return 0;
}

int KernelProgram::not_measured(const std::string& problem) const {
  if (by_turns_) {
    std::cout << Json{{"not_measured", problem}} << std::endl;
  } else {
    std::cout << "NOT MEASURED: " << problem << std::endl;
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

DeviceArray<float> random_floats(Backend& backend, std::size_t count) {
  std::vector<float> piece(std::min<std::size_t>(count, std::size_t{1} << 20));
  std::uint32_t random = 1;
  for (float& value : piece) {
    random = random * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<std::int32_t>(random)) * 0x1p-31f;
  }
  DeviceArray<float> floats(backend, count);
  for (std::size_t at = 0; at < count; at += piece.size()) {
    const std::size_t part = std::min(piece.size(), count - at);
    backend.upload(piece.data(), floats.data() + at, part * sizeof(float));
  }
  return floats;
}

}  // namespace specdec
