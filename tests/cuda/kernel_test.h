#pragma once
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda_backend.h"
#include "kernels/cuda_support.h"
#include "tests/require_gpu.h"
#include "tests/special_numbers.h"
#include "tests/unit/kernels/cpu/cpu_test_support.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// Tests of kernels are built twice: for the emulation, and for the GPU. Without a GPU, the latter
// are skipped. No test may download memory that was never written: compute-sanitizer's initcheck
// would say so on a GPU, and the emulation counts such bytes.
class KernelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // A death test's child starts a new process, because CUDA does not survive a fork.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
#ifndef SPECDEC_EMULATED
    const std::string problem = cuda_support().problem;
    if (!problem.empty()) end_without_gpu(problem);
#endif
  }
#ifdef SPECDEC_EMULATED
  void TearDown() override { EXPECT_EQ((emulation::traffic() - before_).unwritten_to_host, 0u); }

 private:
  const emulation::Traffic before_ = emulation::traffic();
#endif
};

inline std::unique_ptr<Backend> make_device() {
#ifdef SPECDEC_EMULATED
  return make_emulated_backend();
#else
  return make_cuda_backend();
#endif
}

// One for all tests of a program.
inline Backend& device() {
  static const std::unique_ptr<Backend> backend = make_device();
  return *backend;
}

// A format of weights in tests of products.
struct Format {
  WeightType type;
  WeightFormat format;
};
inline constexpr Format kFormats[] = {
    {WeightType::kF32, WeightFormat::kStored},  {WeightType::kF16, WeightFormat::kStored},
    {WeightType::kBF16, WeightFormat::kStored}, {WeightType::kBF16, WeightFormat::kInt8},
    {WeightType::kBF16, WeightFormat::kQ4},     {WeightType::kQ8, WeightFormat::kStored}};

// A copy of host data in device memory, of exactly its size.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : array_(device(), values.size()) {
    device().upload(values.data(), array_.data(), values.size() * sizeof(T));
  }
  T* data() const { return array_.data(); }
  std::vector<T> get() const {
    std::vector<T> values(array_.size());
    device().download(array_.data(), values.data(), values.size() * sizeof(T));
    return values;
  }

 private:
  DeviceArray<T> array_;
};

// A matrix in device memory with a gap of `gap` floats between rows. The first row begins `offset`
// floats after an address aligned to 16 bytes; nothing follows the last row. Outputs, and the gaps
// before and between rows, start as NaN. So an element that is not written fails every comparison,
// and one that should not be read spoils the result.
class DeviceMatrix {
 public:
  DeviceMatrix(int rows, int width, int gap = 0, int offset = 0)
      : rows_(rows),
        width_(width),
        gap_(gap),
        offset_(offset),
        values_(std::vector<float>(static_cast<std::size_t>(offset + rows * (width + gap) - gap),
                                   kNan)) {}
  explicit DeviceMatrix(ConstDeviceRows host, int gap = 0, int offset = 0)
      : DeviceMatrix(host.rows, host.width, gap, offset) {
    for (int r = 0; r < rows_; ++r) {
      device().upload(host.row(r), view().row(r), static_cast<std::size_t>(width_) * sizeof(float));
    }
  }

  DeviceRows view() const { return {values_.data() + offset_, rows_, width_, width_ + gap_}; }
  TestRows get() const {
    TestRows host(rows_, width_);
    for (int r = 0; r < rows_; ++r) {
      device().download(view().row(r), host.row(r),
                        static_cast<std::size_t>(width_) * sizeof(float));
    }
    return host;
  }
  // Whether nothing was written before or between the rows.
  bool gaps_untouched() const {
    const std::vector<float> values = values_.get();
    for (int i = 0; i < static_cast<int>(values.size()); ++i) {
      const bool in_row = i >= offset_ && (i - offset_) % (width_ + gap_) < width_;
      if (!in_row && !std::isnan(values[static_cast<std::size_t>(i)])) return false;
    }
    return true;
  }

 private:
  int rows_, width_, gap_, offset_;
  OnDevice<float> values_;
};

// Whether every element is finite and within its tolerance, magnitude * epsilon. magnitude: the
// size of the terms that were added; epsilon: the relative error that rounding may cause.
inline ::testing::AssertionResult near_rows(const TestRows& got, const TestRows& want,
                                            const TestRows& magnitude, double epsilon) {
  for (int r = 0; r < want.rows(); ++r) {
    for (int i = 0; i < want.width(); ++i) {
      const double error = std::fabs(double{got.row(r)[i]} - double{want.row(r)[i]});
      const double tolerance = epsilon * double{magnitude.row(r)[i]};
      if (!(error <= tolerance)) {
        return ::testing::AssertionFailure()
               << fmt::format("row {} column {}: got {}, want {}, error {} above {}", r, i,
                              got.row(r)[i], want.row(r)[i], error, tolerance);
      }
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
