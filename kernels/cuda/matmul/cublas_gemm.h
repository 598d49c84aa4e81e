#pragma once
#include "kernels/cuda/cuda_matrix.h"
#include "kernels/cuda/runtime.h"
#include "kernels/device_memory.h"
#ifdef SPECDEC_EMULATED
#include "kernels/emulation/cublas_on_cpu.h"
#else
#include <cublas_v2.h>
#endif

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// y = x W^T by cuBLAS, which picks a kernel, and with it an order of summation, by the shapes: the
// bits of a row may differ with the number of rows.
//
// Weights of f32 are multiplied in f32, without TF32. For bf16 and f16, the inputs are rounded to
// the weights' type (f16: what is above 65,504 becomes infinite), and their products are summed up
// in f32. int8 with a scale a row is nothing that cuBLAS multiplies with floats: cuda::matmul does.
class CublasGemm {
 public:
  // The allocator outlives it. Throws std::runtime_error where cuBLAS does not start.
  explicit CublasGemm(DeviceAllocator& allocator);
  ~CublasGemm();
  CublasGemm(const CublasGemm&) = delete;
  CublasGemm& operator=(const CublasGemm&) = delete;

  // x: [T, K], weight: [N, K], y: [T, N]; device memory. Takes scratch for the rounded inputs when
  // they are more than ever before. Throws std::runtime_error where cuBLAS fails.
  void matmul(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream);

 private:
  template <typename T>
  void multiply(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaDataType_t type,
                cudaStream_t stream);
  void gemm(const void* x, std::ptrdiff_t x_stride, const CudaMatrix& weight, DeviceRows y,
            cudaDataType_t type);

  DeviceAllocator& allocator_;
  cublasHandle_t handle_ = nullptr;
  DeviceArray<unsigned char> rounded_;
};

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
