// The way from plain loops to the matrix product of kernels/cpu/matmul.cpp, step by step, on 67 MB
// of bf16 weights: what each step gains, for one row and for six.
//
//   ladder_benchmark [--threads=N] [--samples=N] [--by-turns] [Google Benchmark's options]
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "kernels/cpu/half.h"
#include "kernels/cpu/packed_matrix.h"
#include "tests/benchmarks/machine.h"

namespace specdec {
namespace {

using cpu::Floats;
using cpu::kLanes;
using cpu::Words;

constexpr int kOutputs = 16'384, kWidth = 2048, kMostRows = 6;
constexpr int kPanels = kOutputs / cpu::kPanelRows;

struct Job {
  const std::uint16_t* weights = nullptr;  // [outputs, width], bf16
  const cpu::PackedMatrix* packed = nullptr;
  const float* x = nullptr;  // [rows, width]
  float* y = nullptr;        // [rows, outputs]
  int rows = 0;
};

// [snippet ladder-plain]
// Outputs begin .. end - 1: y = x W^T as it is written.
void plain(const Job& job, std::int64_t begin, std::int64_t end) {
  for (int m = 0; m < job.rows; m++) {
    for (std::int64_t n = begin; n < end; n++) {
      float sum = 0;
      for (int k = 0; k < kWidth; k++) {
        const float weight = cpu::float_from_bf16(job.weights[n * kWidth + k]);
        sum = std::fma(weight, job.x[m * kWidth + k], sum);
      }
      job.y[m * kOutputs + n] = sum;
    }
  }
}
// [end snippet ladder-plain]

// The lanes of a vector are neighbours in a row of weights; their sums are added up at the end.
void along_the_row(const Job& job, std::int64_t begin, std::int64_t end) {
  using Halves = std::uint16_t __attribute__((vector_size(2 * kLanes)));
  constexpr int kSums = 4;  // chains that hide the latency of a multiply-add
  for (int m = 0; m < job.rows; m++) {
    for (std::int64_t n = begin; n < end; n++) {
      Floats sums[kSums] = {};
      for (int k = 0; k < kWidth; k += kSums * kLanes) {
        SPECDEC_UNROLL
        for (int s = 0; s < kSums; s++) {
          Halves halves;
          std::memcpy(&halves, job.weights + n * kWidth + k + s * kLanes, sizeof halves);
          const auto weights = std::bit_cast<Floats>(__builtin_convertvector(halves, Words) << 16);
          sums[s] =
              cpu::multiply_add(weights, cpu::load(job.x + m * kWidth + k + s * kLanes), sums[s]);
        }
      }
      const Floats sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
      float total = 0;
      for (int i = 0; i < kLanes; i++) total += sum[i];
      job.y[m * kOutputs + n] = total;
    }
  }
}

// [snippet ladder-tile]
// The lanes are outputs, which panels lay side by side. M rows of x share one pass over the panel.
template <int M, bool prefetch>
void tile(const std::byte* panel, const float* x, float* y) {
  Floats low[M] = {}, high[M] = {};
  for (int k = 0; k < kWidth; k++, panel += cpu::kVectorBytes) {
    if constexpr (prefetch) {
      __builtin_prefetch(panel + (16 << 10), 0, 2);  // into the second-level cache
      __builtin_prefetch(panel + (3 << 9), 0, 3);    // and from there into the first
    }
    Words words;
    std::memcpy(&words, panel, sizeof words);
    const auto first = std::bit_cast<Floats>(words << 16);
    const auto second = std::bit_cast<Floats>(words & 0xffff0000u);
    SPECDEC_UNROLL
    for (int m = 0; m < M; m++) {
      const Floats value = cpu::splat<Floats>(x[m * kWidth + k]);
      low[m] = cpu::multiply_add(first, value, low[m]);
      high[m] = cpu::multiply_add(second, value, high[m]);
    }
  }
  for (int m = 0; m < M; m++) {
    cpu::store(y + m * kOutputs, low[m]);
    cpu::store(y + m * kOutputs + kLanes, high[m]);
  }
}
// [end snippet ladder-tile]

// Panels, each read once for every row of x.
void row_by_row(const Job& job, std::int64_t begin, std::int64_t end) {
  for (int m = 0; m < job.rows; m++) {
    for (std::int64_t p = begin / cpu::kPanelRows; p < end / cpu::kPanelRows; p++) {
      tile<1, false>(job.packed->panel(p), job.x + m * kWidth,
                     job.y + m * kOutputs + p * cpu::kPanelRows);
    }
  }
}

// Panels, each read once for all rows.
template <bool prefetch>
void together(const Job& job, std::int64_t begin, std::int64_t end) {
  for (std::int64_t p = begin / cpu::kPanelRows; p < end / cpu::kPanelRows; p++) {
    float* y = job.y + p * cpu::kPanelRows;
    if (job.rows == 1) {
      tile<1, prefetch>(job.packed->panel(p), job.x, y);
    } else {
      tile<kMostRows, prefetch>(job.packed->panel(p), job.x, y);
    }
  }
}

struct Step {
  const char* name;
  void (*multiply)(const Job& job, std::int64_t begin, std::int64_t end);
  enum class Threads { kOne, kOwnHalf, kStealing } threads = Threads::kOwnHalf;
};
constexpr Step kSteps[] = {{"1_plain_loops", plain, Step::Threads::kOne},
                           {"2_threads", plain},
                           {"3_vectors_along_the_row", along_the_row},
                           {"4_panels", row_by_row},
                           {"5_rows_share_a_pass", together<false>},
                           {"6_prefetch", together<true>},
                           {"7_work_stealing", together<true>, Step::Threads::kStealing}};

class Ladder {
 public:
  explicit Ladder(int threads) : team_(threads) {
    const std::vector<std::uint16_t> weights = random_halves(std::size_t{kOutputs} * kWidth);
    const HostMatrix host{WeightType::kBF16, std::as_bytes(std::span(weights)), kOutputs, kWidth};
    for (int copies = beyond_caches(2.0 * kOutputs * kWidth); copies > 0; --copies) {
      weights_.push_back(weights);
      packed_.emplace_back(std::span(&host, 1), WeightFormat::kStored, *memory_, team_);
    }
  }

  void run(const Step& step, int rows) {
    const std::size_t copy = next_++ % packed_.size();
    const Job job{weights_[copy].data(), &packed_[copy], x_.data(), y_.data(), rows};
    if (step.threads == Step::Threads::kOne) return step.multiply(job, 0, kOutputs);
    const auto panels = [&](std::int64_t begin, std::int64_t end) {
      step.multiply(job, begin * cpu::kPanelRows, end * cpu::kPanelRows);
    };
    team_.begin_burst();
    if (step.threads == Step::Threads::kStealing) {
      team_.run_stealing(kPanels, [&](std::int64_t panel) { panels(panel, panel + 1); });
    } else {
      team_.run_ranges(kPanels, panels);
    }
    team_.end_burst();
  }

  Work work(int rows) const {
    return {static_cast<double>(packed_[0].bytes()), 2.0 * rows * kOutputs * kWidth};
  }

 private:
  cpu::ThreadTeam team_;
  std::unique_ptr<Backend> memory_ = make_cpu_backend(1);
  std::vector<std::vector<std::uint16_t>> weights_;  // copies, which runs take in turn
  std::deque<cpu::PackedMatrix> packed_;
  std::size_t next_ = 0;
  std::vector<float> x_ = std::vector<float>(std::size_t{kMostRows} * kWidth, 0.5f);
  std::vector<float> y_ = std::vector<float>(std::size_t{kMostRows} * kOutputs);
};

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  specdec::KernelProgram program(argc, argv, 9);
  specdec::Ladder ladder(program.threads());
  for (const specdec::Step& step : specdec::kSteps) {
    const auto run = [&](int rows) { return [&, rows](int) { ladder.run(step, rows); }; };
    program.add(std::string("ladder/") + step.name, {1, specdec::kMostRows},
                [&ladder, run](int rows) {
                  return specdec::Case{ladder.work(rows), run(rows), {{"plain", run(1)}}};
                });
  }
  specdec::CpuMachine machine(program.threads());
  return program.run(machine, {{"backend", std::string("CPU, ") + specdec::cpu::kVectorName}});
}
