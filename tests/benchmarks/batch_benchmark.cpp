// What speculation buys for a batch of requests, by its size B and by K: steps of full batches
// without speculation and with it, one run after the other. docs/experiments/batch.py does more,
// with the programs; this one is quick.
//
//   batch_benchmark [--threads=N] [--tokens=N] [--repeats=N] [--by-turns]
//                   [Google Benchmark's options]
#include "tests/benchmarks/batch_decoding.h"

namespace specdec {
namespace {

constexpr int kBatches[] = {1, 2, 4, 8, 16};
constexpr int kSpecLengthsMeasured[] = {0, 1, 3, 5};

struct Setting {
  std::string target, draft;  // as BenchmarkModels has them
  int batch = 0;              // B
  int spec_length = 0;        // K
};

// Counters: tokens_per_second in full batches; gain over K = 0 of the same B (the median over the
// repeats); c, v: draft step and pass over B (K + 1) rows, in passes over B rows; alpha;
// emitted_per_round, of one request; rows of a pass; bandwidth of a read sweep.
void sweep(benchmark::State& state, BenchmarkModels& models, const Setting& setting) {
  const auto [target, draft, B, K] = setting;
  BatchDecoding decoding(models, target, draft, B, std::max(K, 1));
  std::vector<double> gains, rates, c, v, bandwidths;
  BatchRun run;
  for (auto _ : state) {
    bandwidths.push_back(models.bandwidth());
    const BatchRun plain = decoding.run(benchmark_texts(), 0);
    run = K > 0 ? decoding.run(benchmark_texts(), K) : plain;
    state.SetIterationTime(run.full.seconds);
    const double pass = plain.full.verify_seconds / static_cast<double>(plain.full.steps);
    const auto steps = static_cast<double>(run.full.steps);
    rates.push_back(run.tokens_per_second());
    gains.push_back(run.tokens_per_second() / plain.tokens_per_second());
    c.push_back(run.full.draft_seconds / steps / std::max(K, 1) / pass);
    v.push_back(run.full.verify_seconds / steps / pass);
  }
  const auto steps = static_cast<double>(run.full.steps);
  state.counters["tokens_per_second"] = median(rates);
  state.counters["gain"] = median(gains);
  state.counters["c"] = median(c);
  state.counters["v"] = median(v);
  state.counters["alpha"] = static_cast<double>(run.accepted) /
                            static_cast<double>(std::max<std::int64_t>(run.tested, 1));
  state.counters["emitted_per_round"] = static_cast<double>(run.full.emitted) / steps / B;
  state.counters["rows"] = static_cast<double>(run.full.rows) / steps;
  state.counters["bandwidth"] = median(bandwidths);
}

void add_all(BenchmarkModels& models) {
  for (const auto& [target, draft] :
       {std::pair("embedded", "embedded"), std::pair("134m", "14m")}) {
    for (const int B : kBatches) {
      for (const int K : kSpecLengthsMeasured) {
        const Setting setting{target, draft, B, K};
        add_benchmark(fmt::format("batch/target:{}/draft:{}/B:{}/K:{}", target, draft, B, K),
                      models.settings().repeats, [&models, setting](benchmark::State& state) {
                        sweep(state, models, setting);
                      });
      }
    }
  }
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) { return specdec::run_benchmarks(argc, argv, specdec::add_all); }
