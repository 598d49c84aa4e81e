// The matrix products of Llama 3.2 1B and 3B, bf16 weights: the engine's and the one without tensor
// cores of each matrix, beside cuBLAS, which rounds its inputs to bf16 first: that is part of its
// time; and the other steps of the ladder for gate and up, step 8 for down_proj. Weights are cold;
// inputs and outputs are not, as in a model.
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "kernels/cuda/matmul/cublas_gemm.h"
#include "kernels/cuda/matmul/matmul.h"
#include "tests/benchmarks/cuda_cases.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kMostRows = 512;

struct Product {
  const char* shape;
  const char* matrix;
  int outputs, width;

  bool operator==(const Product&) const = default;
};
constexpr Product kProducts[] = {
    {"1b", "qkv", 3072, 2048},       {"1b", "o_proj", 2048, 2048},
    {"1b", "gate_up", 16'384, 2048}, {"1b", "down_proj", 2048, 8192},
    {"1b", "head", 128'256, 2048},   {"3b", "qkv", 5120, 3072},
    {"3b", "o_proj", 3072, 3072},    {"3b", "gate_up", 16'384, 3072},
    {"3b", "down_proj", 3072, 8192}, {"3b", "head", 128'256, 3072},
};

// Copies of one matrix, and what goes in and comes out.
class Matrices {
 public:
  Matrices(Backend& backend, const Product& product)
      : product_(product),
        x_(random_floats(backend,
                         std::size_t{kMostRows} * static_cast<std::size_t>(product.width))),
        y_(backend, std::size_t{kMostRows} * static_cast<std::size_t>(product.outputs)),
        cublas_(backend) {
    const std::vector<std::uint16_t> values = random_halves(
        static_cast<std::size_t>(product.outputs) * static_cast<std::size_t>(product.width));
    const HostMatrix host{WeightType::kBF16, std::as_bytes(std::span(values)), product.outputs,
                          product.width};
    for (int i = copies_of(host.bytes.size()); i > 0; --i) {
      weights_.push_back(
          std::make_unique<CudaMatrix>(backend, std::span(&host, 1), WeightFormat::kStored));
    }
  }

  const Product& product() const { return product_; }
  int copies() const { return static_cast<int>(weights_.size()); }
  ConstDeviceRows x(int rows) const { return matrix(x_, rows, product_.width); }
  DeviceRows y(int rows) const { return matrix(y_, rows, product_.outputs); }
  const CudaMatrix& weight(int copy) const { return *weights_[static_cast<std::size_t>(copy)]; }
  CublasGemm& cublas() { return cublas_; }
  Work work(int rows) const {
    return {static_cast<double>(weight(0).bytes()), 2.0 * rows * product_.outputs * product_.width};
  }

 private:
  Product product_;
  std::vector<std::unique_ptr<CudaMatrix>> weights_;
  DeviceArray<float> x_, y_;
  CublasGemm cublas_;
};

// y = x W^T with matrix number `copy`.
using Multiply = void (*)(Matrices& matrices, int copy, int rows);

template <auto kernel>
void by(Matrices& matrices, int copy, int rows) {
  kernel(matrices.x(rows), matrices.weight(copy), matrices.y(rows), nullptr);
}
// Step 8 in its three ways, with four blocks for a sum. Where they add, zeros must be there first.
constexpr int kPieces = 4;
void zero(DeviceRows y) {
  const std::size_t floats = static_cast<std::size_t>(y.rows) * static_cast<std::size_t>(y.width);
  cuda_check(cudaMemsetAsync(y.data, 0, floats * sizeof(float), nullptr));
}
void handed_over(Matrices& matrices, int copy, int rows) {
  matmul_split(kPieces, matrices.x(rows), matrices.weight(copy), matrices.y(rows), nullptr);
}
void added_atomically(Matrices& matrices, int copy, int rows) {
  zero(matrices.y(rows));
  matmul_split_parts(kPieces, matrices.x(rows), matrices.weight(copy), matrices.y(rows), nullptr);
}
void added_later(Matrices& matrices, int copy, int rows) {
  const DeviceRows all = matrices.y((kPieces + 1) * rows);
  const DeviceRows parts = all.slice(rows, kPieces * rows);
  zero(parts);
  matmul_split_parts(kPieces, matrices.x(rows), matrices.weight(copy), parts, nullptr);
  add_parts(parts, all.slice(0, rows), nullptr);
}
void by_cublas(Matrices& matrices, int copy, int rows) {
  matrices.cublas().matmul(matrices.x(rows), matrices.weight(copy), matrices.y(rows), nullptr);
}

struct Step {
  const char* name;
  Multiply multiply;
  bool of_all = false;          // matrices, or of one alone
  bool slow = false;            // with many rows
  bool (*can_run)() = nullptr;  // null: on every device
  std::string_view matrix = "gate_up";
};
constexpr Step kSteps[] = {
    {"engine", by<matmul>, true},
    {"cublas", by_cublas, true},
    {"4_rows", by<matmul_rows>, true},
    {"5_mma", by<matmul_mma>},
    {"7_tma", by<matmul_tma>, false, false, can_run_matmul_tma},
    {"8_handed_over", handed_over, false, true, can_run_matmul_split, "down_proj"},
    {"8_atomic", added_atomically, false, true, can_run_matmul_split, "down_proj"},
    {"8_later", added_later, false, true, can_run_matmul_split, "down_proj"},
    {"9_warpgroup", by<matmul_warpgroup>, false, false, can_run_matmul_warpgroup},
    {"3_vector", by<matmul_vector>, false, true},
    {"2_warp", by<matmul_warp>, false, true},
    {"1_naive", by<matmul_naive>, false, true}};

std::vector<std::int64_t> rows_of(const Step& step) {
  if (step.slow) return {1, 6, 16};
  return {1, 6, 16, 64, 512};
}

}  // namespace

// Rivals: cublas; plain, the same step at M = 1.
void add_product_benchmarks(KernelProgram& program, Backend& backend) {
  // Of the product that was asked for last.
  const auto kept = std::make_shared<std::optional<Matrices>>();
  for (const Product& product : kProducts) {
    for (const Step& step : kSteps) {
      if (!step.of_all && product.matrix != step.matrix) continue;
      if (step.can_run != nullptr && !step.can_run()) continue;
      program.add(fmt::format("matmul/shape:{}/matrix:{}/step:{}", product.shape, product.matrix,
                              step.name),
                  rows_of(step), [&backend, kept, product, step](int rows) {
                    if (!*kept || (*kept)->product() != product) {
                      kept->reset();
                      kept->emplace(backend, product);
                    }
                    const auto job = [kept](Multiply multiply, int m) {
                      return [kept, multiply, m](int copy) { multiply(**kept, copy, m); };
                    };
                    return Case{
                        (*kept)->work(rows),
                        job(step.multiply, rows),
                        {{"plain", job(step.multiply, 1)}, {"cublas", job(by_cublas, rows)}},
                        (*kept)->copies()};
                  });
    }
  }
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
