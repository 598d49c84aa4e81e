#include <stdexcept>
#include <string>

#include "kernels/cpu/host_backend.h"
#include "kernels/cuda/cublas_gemm.h"
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/matmul.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

// Throws, with file and line of the call, unless the call succeeded.
void cublas_check(cublasStatus_t status, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string("cuBLAS: ") + cublasGetStatusString(status) + " (" + file +
                           ":" + std::to_string(line) + ")");
}

__device__ void round_to(float from, __half& to) { to = __float2half(from); }
__device__ void round_to(float from, __nv_bfloat16& to) { to = __float2bfloat16(from); }

template <typename T>
__global__ void round_kernel(ConstDeviceRows x, T* to) {  // to: [T, width], dense
  const int i = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  const int t = static_cast<int>(blockIdx.x);
  if (i < x.width) round_to(row_of(x, t)[i], to[static_cast<std::ptrdiff_t>(t) * x.width + i]);
}

}  // namespace

CublasGemm::CublasGemm(DeviceAllocator& allocator) : allocator_(allocator) {
  cublas_check(cublasCreate(&handle_));
}

CublasGemm::~CublasGemm() { cublasDestroy(handle_); }

void CublasGemm::matmul(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                        cudaStream_t stream) {
  cublas_check(cublasSetStream(handle_, stream));
  switch (weight.type()) {
    case WeightType::kF32:
      return gemm(x.data, x.stride, weight, y, CUDA_R_32F);
    case WeightType::kF16:
      return multiply<__half>(x, weight, y, CUDA_R_16F, stream);
    case WeightType::kBF16:
      return multiply<__nv_bfloat16>(x, weight, y, CUDA_R_16BF, stream);
    case WeightType::kInt8:
      return cuda::matmul(x, weight, y, stream);
  }
}

template <typename T>
void CublasGemm::multiply(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                          cudaDataType_t type, cudaStream_t stream) {
  constexpr int kThreads = 128;
  const std::size_t bytes =
      static_cast<std::size_t>(x.rows) * static_cast<std::size_t>(x.width) * sizeof(T);
  if (rounded_.size() < bytes) rounded_ = DeviceArray<unsigned char>(allocator_, bytes);
  T* rounded = reinterpret_cast<T*>(rounded_.data());
  launch(round_kernel<T>, dim3(static_cast<unsigned>(x.rows), blocks_for(x.width, kThreads)),
         kThreads, 0, stream, x, rounded);
  gemm(rounded, x.width, weight, y, type);
}

// cuBLAS counts matrices column by column: to it our row-major [T, N] is y^T, N x T, the product of
// W, stored as its transpose, and x^T.
void CublasGemm::gemm(const void* x, std::ptrdiff_t x_stride, const CudaMatrix& weight,
                      DeviceRows y, cudaDataType_t type) {
  const float one = 1.0f, zero = 0.0f;
  const auto weight_stride = weight.row_bytes() / cpu::element_size(weight.type());
  cublas_check(cublasGemmEx(handle_, CUBLAS_OP_T, CUBLAS_OP_N, y.width, y.rows, weight.width(),
                            &one, weight.data(), type, static_cast<int>(weight_stride), x, type,
                            static_cast<int>(x_stride), &zero, y.data, CUDA_R_32F,
                            static_cast<int>(y.stride), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
