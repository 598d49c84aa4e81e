// Choosing and judging tokens from rows of 128,256 logits. argmax by its kernels alone; what a
// sampler does with its copies to the device and back.
#include <random>

#include <fmt/format.h>

#include "kernels/cuda/argmax/argmax.h"
#include "tests/benchmarks/cuda_cases.h"

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

// A token for each of M rows, or, as drafts of a round, for all but the last.
struct Choices {
  Choices(Backend& backend, int rows, const RowSampling& row_sampling)
      : logits(backend, rows),
        sampler(backend.make_sampler({.vocab_size = kVocabulary, .rows = rows})),
        sampling(row_sampling) {
    for (int r = 0; r < rows; ++r) choices.push_back({.sampling = sampling, .position = r});
    tokens.resize(choices.size());
  }

  void choose(int copy) { sampler->choose(logits.of(copy), choices, tokens); }

  // Draws the drafts that judge() is asked about.
  void draft(Backend& backend) {
    choices.pop_back();
    tokens.pop_back();
    probs = DeviceArray<double>(backend, choices.size() * kVocabulary);
    for (std::size_t i = 0; i < choices.size(); ++i) {
      choices[i].probs = probs.data() + i * kVocabulary;
      draft_probs.push_back(choices[i].probs);
    }
    acceptance_probs.resize(tokens.size());
    sampler->choose({logits.of(0).data, logits.rows() - 1, kVocabulary, kVocabulary}, choices,
                    tokens);
  }
  void judge(int copy) {
    const DraftedRound round{.logits = logits.of(copy),
                             .drafts = tokens,
                             .draft_probs = draft_probs,
                             .sampling = sampling};
    Verdict verdict;
    sampler->judge({&round, 1}, {&verdict, 1}, acceptance_probs);
  }

  Logits logits;
  std::unique_ptr<Sampler> sampler;
  RowSampling sampling;
  std::vector<Choice> choices;
  std::vector<std::int32_t> tokens;
  DeviceArray<double> probs;  // [drafts, kVocabulary]
  std::vector<const double*> draft_probs;
  std::vector<double> acceptance_probs;
};

template <typename T>
std::shared_ptr<DeviceArray<T>> zeros(Backend& backend, int count) {
  return std::make_shared<DeviceArray<T>>(
      on_device(backend, std::vector<T>(static_cast<std::size_t>(count))));
}

Case case_of(const Logits& logits, Job job) {
  return {logits.work(), std::move(job), {}, logits.copies()};
}

struct Filter {
  const char* name;
  int top_k;
  double top_p;
};
constexpr Filter kFilters[] = {{"all", 0, 1}, {"top_k_50", 50, 1}, {"top_p_0.9", 0, 0.9}};

}  // namespace

void add_sampling_benchmarks(KernelProgram& program, Backend& backend) {
  using Step = std::pair<const char*, Argmax>;
  static constexpr Step kSteps[] = {
      {"1_naive", [](auto x, auto* ids, ArgmaxScratch) { argmax_naive(x, ids, nullptr); }},
      {"2_block", [](auto x, auto* ids, ArgmaxScratch) { argmax_block(x, ids, nullptr); }},
      {"3_blocks",
       [](auto x, auto* ids, auto scratch) { argmax_blocks(x, ids, scratch, nullptr); }},
      {"engine", [](auto x, auto* ids, auto scratch) { argmax(x, ids, scratch, nullptr); }}};
  for (const auto& [step, kernel] : kSteps) {
    program.add(fmt::format("argmax/step:{}", step), {1, 6, 64}, [&, kernel = kernel](int rows) {
      const auto logits = std::make_shared<Logits>(backend, rows);
      const auto ids = zeros<std::int32_t>(backend, rows);
      const auto keys = zeros<unsigned long long>(backend, rows);
      const auto done = zeros<unsigned>(backend, rows);
      return case_of(*logits, [=](int copy) {
        kernel(logits->of(copy), ids->data(), {keys->data(), done->data()});
      });
    });
  }
  if (!backend.make_sampler({.vocab_size = 1})) return;  // it has none
  for (const Filter& filter : kFilters) {
    RowSampling sampling;
    sampling.temperature = 1;
    sampling.top_k = filter.top_k;
    sampling.top_p = filter.top_p;
    program.add(fmt::format("choose/from:{}", filter.name), {1, 6, 64}, [&, sampling](int rows) {
      const auto inputs = std::make_shared<Choices>(backend, rows, sampling);
      return case_of(inputs->logits, [=](int copy) { inputs->choose(copy); });
    });
    program.add(fmt::format("judge/from:{}", filter.name), {2, 6}, [&, sampling](int rows) {
      const auto inputs = std::make_shared<Choices>(backend, rows, sampling);
      inputs->draft(backend);
      return case_of(inputs->logits, [=](int copy) { inputs->judge(copy); });
    });
  }
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
