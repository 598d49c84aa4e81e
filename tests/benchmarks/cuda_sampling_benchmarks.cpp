// Choosing and judging tokens from rows of 128,256 logits. argmax by its kernels alone; what a
// sampler does with its copies to the device and back.
#include <random>

#include <fmt/format.h>

#include "kernels/cuda/argmax/argmax.h"
#include "tests/benchmarks/cuda_samples.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kVocabulary = 128'256;

// Copies of rows of logits: normal, with a deviation of 4, about what models write.
class Logits {
 public:
  Logits(Backend& backend, int rows)
      : rows_(rows),
        copies_(copies_of(size() * sizeof(float))),
        values_(backend, static_cast<std::size_t>(copies_) * size()) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 4);
    std::vector<float> row(kVocabulary);
    for (float& logit : row) logit = normal(random);
    for (std::size_t r = 0; r < values_.size() / kVocabulary; ++r) {
      std::rotate(row.begin(), row.begin() + 1, row.end());
      backend.upload(row.data(), values_.data() + r * kVocabulary, row.size() * sizeof(float));
    }
  }

  int copies() const { return copies_; }
  int rows() const { return rows_; }
  ConstDeviceRows of(int copy) const {
    return {values_.data() + static_cast<std::size_t>(copy) * size(), rows_, kVocabulary,
            kVocabulary};
  }
  Work work() const { return {static_cast<double>(size() * sizeof(float)), 0}; }

 private:
  std::size_t size() const { return static_cast<std::size_t>(rows_) * kVocabulary; }

  int rows_, copies_;
  DeviceArray<float> values_;
};

using Argmax = void (*)(ConstDeviceRows, std::int32_t*, ArgmaxScratch);

void run_argmax(benchmark::State& state, CudaBench& bench, Argmax kernel) {
  const Logits logits(bench.backend, static_cast<int>(state.range(0)));
  const auto rows = static_cast<std::size_t>(logits.rows());
  const DeviceArray<std::int32_t> ids(bench.backend, rows);
  const DeviceArray<unsigned long long> keys(bench.backend, rows);
  const DeviceArray<unsigned> done(bench.backend, rows);
  const std::vector<unsigned long long> zeros(rows, 0);
  bench.backend.upload(zeros.data(), keys.data(), rows * sizeof(unsigned long long));
  bench.backend.upload(zeros.data(), done.data(), rows * sizeof(unsigned));
  measure(state, bench, logits.work(), logits.copies(), [&](int copy) {
    kernel(logits.of(copy), ids.data(), {keys.data(), done.data()});
  });
}

// A token for each of M rows.
void run_choose(benchmark::State& state, CudaBench& bench, const RowSampling& sampling) {
  const Logits logits(bench.backend, static_cast<int>(state.range(0)));
  const auto sampler =
      bench.backend.make_sampler({.vocab_size = kVocabulary, .rows = logits.rows()});
  std::vector<Choice> choices;
  for (int r = 0; r < logits.rows(); ++r) choices.push_back({.sampling = sampling, .position = r});
  std::vector<std::int32_t> tokens(choices.size());
  measure(state, bench, logits.work(), logits.copies(),
          [&](int copy) { sampler->choose(logits.of(copy), choices, tokens); });
}

// Judges M - 1 drafts, drawn from the rows that are held against them.
void run_judge(benchmark::State& state, CudaBench& bench, const RowSampling& sampling) {
  const Logits logits(bench.backend, static_cast<int>(state.range(0)));
  const auto sampler =
      bench.backend.make_sampler({.vocab_size = kVocabulary, .rows = logits.rows()});
  const int drafts = logits.rows() - 1;
  const DeviceArray<double> probs(bench.backend, static_cast<std::size_t>(drafts) * kVocabulary);
  std::vector<Choice> choices;
  std::vector<const double*> draft_probs;
  for (int i = 0; i < drafts; ++i) {
    double* row = probs.data() + static_cast<std::size_t>(i) * kVocabulary;
    choices.push_back({.sampling = sampling, .position = i, .probs = row});
    draft_probs.push_back(row);
  }
  std::vector<std::int32_t> tokens(choices.size());
  sampler->choose({logits.of(0).data, drafts, kVocabulary, kVocabulary}, choices, tokens);
  std::vector<double> acceptance_probs(tokens.size());
  measure(state, bench, logits.work(), logits.copies(), [&](int copy) {
    const DraftedRound round{.logits = logits.of(copy),
                             .drafts = tokens,
                             .draft_probs = draft_probs,
                             .sampling = sampling};
    Verdict verdict;
    sampler->judge({&round, 1}, {&verdict, 1}, acceptance_probs);
  });
}

struct Filter {
  const char* name;
  int top_k;
  double top_p;
};
constexpr Filter kFilters[] = {{"all", 0, 1}, {"top_k_50", 50, 1}, {"top_p_0.9", 0, 0.9}};

}  // namespace

void add_sampling_benchmarks(CudaBench& bench) {
  using Step = std::pair<const char*, Argmax>;
  static constexpr Step kSteps[] = {
      {"1_naive", [](auto x, auto* ids, ArgmaxScratch) { argmax_naive(x, ids, nullptr); }},
      {"2_block", [](auto x, auto* ids, ArgmaxScratch) { argmax_block(x, ids, nullptr); }},
      {"3_blocks",
       [](auto x, auto* ids, auto scratch) { argmax_blocks(x, ids, scratch, nullptr); }},
      {"engine", [](auto x, auto* ids, auto scratch) { argmax(x, ids, scratch, nullptr); }}};
  for (const auto& [step, kernel] : kSteps) {
    add_benchmark(
        fmt::format("argmax/step:{}", step), {1, 6, 64},
        [&bench, kernel = kernel](benchmark::State& state) { run_argmax(state, bench, kernel); });
  }
  if (!bench.backend.make_sampler({.vocab_size = 1})) return;  // it has none
  for (const Filter& filter : kFilters) {
    RowSampling sampling;
    sampling.temperature = 1;
    sampling.top_k = filter.top_k;
    sampling.top_p = filter.top_p;
    add_benchmark(
        fmt::format("choose/from:{}", filter.name), {1, 6, 64},
        [&bench, sampling](benchmark::State& state) { run_choose(state, bench, sampling); });
    add_benchmark(
        fmt::format("judge/from:{}", filter.name), {2, 6},
        [&bench, sampling](benchmark::State& state) { run_judge(state, bench, sampling); });
  }
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
