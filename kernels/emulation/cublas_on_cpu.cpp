#include "kernels/emulation/cublas_on_cpu.h"

#include <algorithm>

#include "kernels/emulation/half.h"
#include "kernels/emulation/streams.h"

struct EmulatedCublas {
  cudaStream_t stream = nullptr;
};

namespace {

// A column-major matrix, or its transpose.
struct Matrix {
  const void* data;
  cudaDataType type;
  std::size_t down, right;  // elements to the next row; to the next column

  Matrix(const void* data_, cudaDataType type_, cublasOperation_t op, int ld)
      : data(data_), type(type_), down(1), right(ld) {
    if (op == CUBLAS_OP_T) std::swap(down, right);
  }
  std::size_t index(int row, int column) const { return row * down + column * right; }
  float at(int row, int column) const {
    const std::size_t i = index(row, column);
    if (type == CUDA_R_16F) return __half2float(static_cast<const __half*>(data)[i]);
    if (type == CUDA_R_16BF) return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
    return static_cast<const float*>(data)[i];
  }
};

void store(void* data, cudaDataType type, std::size_t i, float value) {
  if (type == CUDA_R_16F) {
    static_cast<__half*>(data)[i] = __float2half(value);
  } else if (type == CUDA_R_16BF) {
    static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(value);
  } else {
    static_cast<float*>(data)[i] = value;
  }
}

cublasStatus_t check(cublasHandle_t handle) {
  return handle != nullptr ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

}  // namespace

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the functionality requested is not supported";
  }
  return "unknown status";
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = new EmulatedCublas;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  const cublasStatus_t status = check(handle);
  delete handle;
  return status;
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (handle != nullptr) handle->stream = stream;
  return check(handle);
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t) { return check(handle); }

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                            int m, int n, int k, const void* alpha, const void* a,
                            cudaDataType type_a, int lda, const void* b, cudaDataType type_b,
                            int ldb, const void* beta, void* c, cudaDataType type_c, int ldc,
                            cublasComputeType_t, cublasGemmAlgo_t) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || k < 0 || alpha == nullptr || beta == nullptr ||
      lda < std::max(1, op_a == CUBLAS_OP_T ? k : m) ||
      ldb < std::max(1, op_b == CUBLAS_OP_T ? n : k) || ldc < std::max(1, m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (type_a != type_b || (type_c != type_a && type_c != CUDA_R_32F)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const float scale = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta);
  const Matrix left(a, type_a, op_a, lda), right(b, type_b, op_b, ldb);
  const Matrix out(c, type_c, CUBLAS_OP_N, ldc);
  specdec::emulation::enqueue_launch(handle->stream, [=] {
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < m; ++i) {
        double sum = 0.0;
        for (int l = 0; l < k; ++l) sum += double{left.at(i, l)} * double{right.at(l, j)};
        const float kept = keep != 0.0f ? keep * out.at(i, j) : 0.0f;
        const float product = double{scale} * sum;
        store(c, type_c, out.index(i, j), product + kept);
      }
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}
