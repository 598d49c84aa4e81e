// The stand-in for cuBLAS: the product by its definition, and the refusals of the real one.
#include "kernels/emulation/cublas_on_cpu.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace specdec {
namespace {

class Cublas : public ::testing::Test {
 protected:
  Cublas() { EXPECT_EQ(cublasCreate(&handle_), CUBLAS_STATUS_SUCCESS); }
  ~Cublas() override { EXPECT_EQ(cublasDestroy(handle_), CUBLAS_STATUS_SUCCESS); }

  // C [2, 3] = alpha op(A) op(B) + beta C, with op(A) [2, 4], op(B) [4, 3].
  cublasStatus_t gemm(cublasOperation_t op_a, int lda, cublasOperation_t op_b, int ldb, int ldc,
                      cudaDataType type_b = CUDA_R_32F, float alpha = 1.0f, float beta = 0.0f) {
    return cublasGemmEx(handle_, op_a, op_b, 2, 3, 4, &alpha, a_.data(), CUDA_R_32F, lda, b_.data(),
                        type_b, ldb, &beta, c_.data(), CUDA_R_32F, ldc, CUBLAS_COMPUTE_32F,
                        CUBLAS_GEMM_DEFAULT);
  }

  // Whether C, with columns ldc apart, is alpha op(A) op(B) + beta.
  void expect_product(cublasOperation_t op_a, int lda, cublasOperation_t op_b, int ldb, int ldc,
                      float alpha, float beta) {
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 3; ++j) {
        float sum = 0.0f;
        for (int k = 0; k < 4; ++k) {
          sum += a_[static_cast<std::size_t>(op_a == CUBLAS_OP_N ? i + k * lda : k + i * lda)] *
                 b_[static_cast<std::size_t>(op_b == CUBLAS_OP_N ? k + j * ldb : j + k * ldb)];
        }
        EXPECT_EQ(c_[static_cast<std::size_t>(i + j * ldc)], alpha * sum + beta) << i << " " << j;
      }
    }
  }

  cublasHandle_t handle_ = nullptr;
  std::vector<float> a_ = numbers(40), b_ = numbers(40), c_ = std::vector<float>(40, 1.0f);

 private:
  static std::vector<float> numbers(int count) {
    std::vector<float> values;
    for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(i * 7 % 11 - 5));
    return values;
  }
};

TEST_F(Cublas, MultipliesColumnMajorMatrices) {
  for (const float beta : {0.0f, 2.0f}) {
    for (const cublasOperation_t op_a : {CUBLAS_OP_N, CUBLAS_OP_T}) {
      for (const cublasOperation_t op_b : {CUBLAS_OP_N, CUBLAS_OP_T}) {
        const int lda = op_a == CUBLAS_OP_N ? 3 : 5, ldb = op_b == CUBLAS_OP_N ? 6 : 4;
        c_.assign(40, 1.0f);
        ASSERT_EQ(gemm(op_a, lda, op_b, ldb, 5, CUDA_R_32F, 0.5f, beta), CUBLAS_STATUS_SUCCESS);
        expect_product(op_a, lda, op_b, ldb, 5, 0.5f, beta);
        EXPECT_EQ(c_[2], 1.0f);  // between the columns
      }
    }
  }
}

TEST_F(Cublas, DoesNotReadWhatBetaZeroDiscards) {
  c_.assign(40, NAN);
  ASSERT_EQ(gemm(CUBLAS_OP_N, 2, CUBLAS_OP_N, 4, 2), CUBLAS_STATUS_SUCCESS);
  expect_product(CUBLAS_OP_N, 2, CUBLAS_OP_N, 4, 2, 1.0f, 0.0f);
}

TEST_F(Cublas, RefusesWhatCublasRefuses) {
  EXPECT_EQ(gemm(CUBLAS_OP_N, 1, CUBLAS_OP_N, 4, 2), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(gemm(CUBLAS_OP_T, 3, CUBLAS_OP_N, 4, 2), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(gemm(CUBLAS_OP_N, 2, CUBLAS_OP_N, 3, 2), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(gemm(CUBLAS_OP_N, 2, CUBLAS_OP_T, 2, 2), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(gemm(CUBLAS_OP_N, 2, CUBLAS_OP_N, 4, 1), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(gemm(CUBLAS_OP_N, 2, CUBLAS_OP_N, 4, 2, CUDA_R_16F), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(cublasSetMathMode(nullptr, CUBLAS_DEFAULT_MATH), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(cublasSetStream(nullptr, nullptr), CUBLAS_STATUS_NOT_INITIALIZED);
}

}  // namespace
}  // namespace specdec
