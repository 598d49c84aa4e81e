#pragma once
#include "tests/cuda/matmul_test.h"

// Shared by tests of products on tensor cores.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// The numbers of a product. Its sums are either large or small compared to their terms.
struct Product {
  Product(TestNumbers& numbers, int width, bool positive)
      : x(TestRows::random(numbers, 8, width)), weights(WeightType::kBF16, 16, width) {
    for (int n = 0; n < weights.rows(); ++n) {
      for (int k = 0; k < width; ++k) {
        float w = numbers.number();
        if (positive) w = std::fabs(w);
        weights.set(n * width + k, std::bit_cast<std::uint32_t>(w) >> 16);
      }
    }
    for (int t = 0; positive && t < x.rows(); ++t) {
      for (int k = 0; k < width; ++k) x.row(t)[k] = std::fabs(x.row(t)[k]);
    }
  }

  // |y - x W^T| / |x W^T|, computed in float64, for weights in this format.
  double error_of(const TestRows& y, WeightFormat format = WeightFormat::kStored) const {
    const TestRows w = kept(plain_backend(), weights.host(), format);
    double error = 0.0, norm = 0.0;
    for (int t = 0; t < x.rows(); ++t) {
      for (int n = 0; n < weights.rows(); ++n) {
        double want = 0.0;
        for (int k = 0; k < x.width(); ++k) want += double{x.row(t)[k]} * w.row(n)[k];
        error += std::pow(y.row(t)[n] - want, 2);
        norm += want * want;
      }
    }
    return std::sqrt(error / norm);
  }

  TestRows x;
  TestWeights weights;
};

// The tolerance for a model's tensor in float32.
inline constexpr double kFloat32Tolerance = 1e-5;

#ifdef SPECDEC_EMULATED
// Sets a model of tensor cores, and restores it when a test ends.
class ModelIs {
 public:
  ModelIs(emulation::TensorCoreModel& model, emulation::TensorCoreModel value)
      : model_(model), before_(model) {
    model = value;
  }
  ~ModelIs() { model_ = before_; }
  ModelIs(const ModelIs&) = delete;
  ModelIs& operator=(const ModelIs&) = delete;

 private:
  emulation::TensorCoreModel& model_;
  emulation::TensorCoreModel before_;
};
#endif

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
