// cublas_cpu.hpp -- the one cuBLAS call we use, column-major like the original, in double
// precision.
#pragma once
#include "kernels/emulation/cuda_on_cpu.h"
enum cublasStatus_t { CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_INVALID_VALUE = 7 };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cudaDataType_t { CUDA_R_32F, CUDA_R_16BF };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
using cublasHandle_t = void*;
inline cublasStatus_t cublasCreate(cublasHandle_t* h) {
  *h = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasDestroy(cublasHandle_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetStream(cublasHandle_t, cudaStream_t) {
  return CUBLAS_STATUS_SUCCESS;
}
inline float emu_get(const void* p, cudaDataType_t t, size_t i) {
  return t == CUDA_R_32F ? static_cast<const float*>(p)[i]
                         : __bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]);
}
inline cublasStatus_t cublasGemmEx(cublasHandle_t, cublasOperation_t ta, cublasOperation_t tb,
                                   int m, int n, int k, const void* alpha, const void* A,
                                   cudaDataType_t At, int lda, const void* B, cudaDataType_t Bt,
                                   int ldb, const void* beta, void* C, cudaDataType_t Ct, int ldc,
                                   cublasComputeType_t, cublasGemmAlgo_t) {
  if (lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m) return CUBLAS_STATUS_INVALID_VALUE;
  float al = *static_cast<const float*>(alpha), be = *static_cast<const float*>(beta);
  for (int j = 0; j < n; j++)
    for (int i = 0; i < m; i++) {
      double s = 0;
      for (int l = 0; l < k; l++)
        s += double(emu_get(A, At, ta ? l + size_t(i) * lda : i + size_t(l) * lda)) *
             emu_get(B, Bt, tb ? j + size_t(l) * ldb : l + size_t(j) * ldb);
      size_t c = i + size_t(j) * ldc;
      float r = float(al * s) + (be != 0 ? be * emu_get(C, Ct, c) : 0);
      if (Ct == CUDA_R_32F)
        static_cast<float*>(C)[c] = r;
      else
        static_cast<__nv_bfloat16*>(C)[c] = __float2bfloat16(r);
    }
  return CUBLAS_STATUS_SUCCESS;
}
