// How close the matrix products of a decode step come to the memory's bandwidth, and what more rows
// cost: the products of a model of 134 million random bf16 parameters, M = 1 .. 8 rows, one after
// the other, interleaved with read sweeps. Speculation lives on T(M) / T(1) being close to 1.
//
//   cpu_kernels_benchmark [threads] [rounds]
#include <charconv>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "tests/benchmarks/read_sweep.h"

namespace specdec {
namespace {

constexpr int kModel = 768, kHeads = 6, kKvHeads = 2, kHeadDim = 128, kFeedForward = 3072;
constexpr int kLayers = 11, kVocabulary = 49'152;
constexpr int kMaxRows = 8;
constexpr int kStepsPerSample = 3;

std::unique_ptr<const WeightMatrix> random_matrix(Backend& backend, int rows, int width) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(rows) *
                                    static_cast<std::size_t>(width));
  std::uint32_t state = static_cast<std::uint32_t>(rows);
  for (std::uint16_t& value : values) {  // bf16 of either sign, around 1/32
    state = state * 1664525u + 1013904223u;
    value = static_cast<std::uint16_t>(0x3d00u | (state >> 24) | (state >> 16 & 0x8000u));
  }
  const HostMatrix host{WeightType::kBF16, std::as_bytes(std::span(values)), rows, width};
  return backend.load_matrix({&host, 1});
}

// The matrices of the model and the activations between them.
class Step {
 public:
  explicit Step(Backend& backend) : backend_(backend) {
    for (int layer = 0; layer < kLayers; ++layer) {
      add_matrix((kHeads + 2 * kKvHeads) * kHeadDim, kModel);
      add_matrix(kModel, kHeads * kHeadDim);
      add_matrix(2 * kFeedForward, kModel);
      add_matrix(kModel, kFeedForward);
    }
    add_matrix(kVocabulary, kModel);
    backend.fill(matrix(input_, kMaxRows, kFeedForward), 0.5f);
  }

  double bytes() const {
    double sum = 0;
    for (const auto& weight : weights_) sum += static_cast<double>(weight->bytes());
    return sum;
  }

  // Every product, on `rows` rows.
  void run(int rows) {
    backend_.begin_burst();
    for (const auto& weight : weights_) {
      backend_.matmul(matrix(input_, rows, weight->width()), *weight,
                      matrix(output_, rows, weight->rows()));
    }
    backend_.end_burst();
  }

 private:
  void add_matrix(int rows, int width) { weights_.push_back(random_matrix(backend_, rows, width)); }

  Backend& backend_;
  std::vector<std::unique_ptr<const WeightMatrix>> weights_;
  DeviceArray<float> input_{backend_, std::size_t{kMaxRows} * kFeedForward};
  DeviceArray<float> output_{backend_, std::size_t{kMaxRows} * kVocabulary};
};

int run(int threads, int rounds) {
  const auto backend = make_cpu_backend(threads);
  Step step(*backend);
  ReadSweep sweep(threads);
  fmt::print("{}; {:.1f} MB of weights a step\n", backend->name(), step.bytes() / 1e6);
  std::vector<TimedJob> jobs;
  for (int rows = 1; rows <= kMaxRows; ++rows) {
    const auto steps = [&step, rows] {
      for (int i = 0; i < kStepsPerSample; ++i) step.run(rows);
    };
    jobs.push_back({steps, kStepsPerSample * step.bytes()});
  }
  print_shares(interleave(sweep, jobs, rounds), jobs, kStepsPerSample);
  return 0;
}

bool parse(const char* text, int& value) {
  const char* end = text + std::strlen(text);
  return std::from_chars(text, end, value).ptr == end && value >= 0;
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  int threads = 0, rounds = 21;
  if (argc > 3 || (argc > 1 && !specdec::parse(argv[1], threads)) ||
      (argc > 2 && !specdec::parse(argv[2], rounds))) {
    fmt::print(stderr, "usage: cpu_kernels_benchmark [threads, 0: all cores] [rounds]\n");
    return 2;
  }
  return specdec::run(threads, rounds);
}
