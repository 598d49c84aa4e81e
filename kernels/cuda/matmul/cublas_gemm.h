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

// y = x W^T by cuBLAS, which picks a kernel, and with it an order of summation, by the shapes. So
// the bits of a row may depend on the number of rows.
//
// Weights of f32 are multiplied in f32, without TF32. For bf16 and f16, the inputs are rounded to
// the weights' type (in f16, values above 65,504 become infinite), and products are added in f32.
// cuBLAS does not multiply floats with integers that have a scale per row or group, so cuda::matmul
// does.
class CublasGemm {
 public:
  // The allocator outlives it. Throws std::runtime_error if cuBLAS does not start.
  explicit CublasGemm(DeviceAllocator& allocator);
  ~CublasGemm();
  CublasGemm(const CublasGemm&) = delete;
  CublasGemm& operator=(const CublasGemm&) = delete;

  // x: [T, K], weight: [N, K], y: [T, N]; device memory. Allocates scratch for the rounded inputs
  // if there are more than in any earlier call. Throws std::runtime_error if cuBLAS fails.
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
