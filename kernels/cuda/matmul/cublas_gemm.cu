#include <stdexcept>
#include <string>

#include <dlfcn.h>

#include "kernels/cpu/host_backend.h"
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/matmul/cublas_gemm.h"
#include "kernels/cuda/matmul/matmul.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

// The functions of cuBLAS that we call. Its libraries take a tenth of a second to load, which
// linking would cost every program at its start. So they are opened on first use.
struct Cublas {
  decltype(&cublasCreate) create;
  decltype(&cublasDestroy) destroy;
  decltype(&cublasSetStream) set_stream;
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                         const void*, const void*, cudaDataType_t, int, const void*, cudaDataType_t,
                         int, const void*, void*, cudaDataType_t, int, cublasComputeType_t,
                         cublasGemmAlgo_t);
  decltype(&cublasGetStatusString) status_string;
};

#ifdef SPECDEC_EMULATED
const Cublas& cublas() {
  static const Cublas functions = {cublasCreate, cublasDestroy, cublasSetStream, cublasGemmEx,
                                   cublasGetStatusString};
  return functions;
}
#else
template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(library != nullptr ? dlsym(library, name) : nullptr);
  if (function == nullptr) throw std::runtime_error(std::string("cuBLAS: ") + dlerror());
}

const Cublas& cublas() {
  static const Cublas functions = [] {
    // The library that this machine finds by name; if none, the one that we were built with.
    void* library = dlopen(SPECDEC_CUBLAS_SONAME, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) library = dlopen(SPECDEC_CUBLAS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    Cublas found;
    find(library, "cublasCreate_v2", found.create);  // the header's names are macros for these
    find(library, "cublasDestroy_v2", found.destroy);
    find(library, "cublasSetStream_v2", found.set_stream);
    find(library, "cublasGemmEx", found.gemm);
    find(library, "cublasGetStatusString", found.status_string);
    return found;
  }();
  return functions;
}
#endif

// Throws, with file and line of the call, if the call failed.
void cublas_check(cublasStatus_t status, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string("cuBLAS: ") + cublas().status_string(status) + " (" + file +
                           ":" + std::to_string(line) + ")");
}

__device__ void round_to(float from, __half& to) { to = __float2half(from); }
__device__ void round_to(float from, __nv_bfloat16& to) { to = __float2bfloat16(from); }

template <typename T>
__global__ void round_kernel(ConstDeviceRows x, T* to) {  // to: [T, width], dense
  const int i = blockIdx.y * blockDim.x + threadIdx.x, t = blockIdx.x;
  if (i < x.width) round_to(row_of(x, t)[i], to[std::ptrdiff_t{t} * x.width + i]);
}

}  // namespace

CublasGemm::CublasGemm(DeviceAllocator& allocator) : allocator_(allocator) {
  cublas_check(cublas().create(&handle_));
}

CublasGemm::~CublasGemm() { cublas().destroy(handle_); }

void CublasGemm::matmul(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                        cudaStream_t stream) {
  cublas_check(cublas().set_stream(handle_, stream));
  switch (weight.type()) {
    case WeightType::kF32:
      return gemm(x.data, x.stride, weight, y, CUDA_R_32F);
    case WeightType::kF16:
      return multiply<__half>(x, weight, y, CUDA_R_16F, stream);
    case WeightType::kBF16:
      return multiply<__nv_bfloat16>(x, weight, y, CUDA_R_16BF, stream);
    case WeightType::kInt8:
    case WeightType::kQ4:
    case WeightType::kQ8:
      return cuda::matmul(x, weight, y, stream);
  }
}

template <typename T>
void CublasGemm::multiply(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                          cudaDataType_t type, cudaStream_t stream) {
  constexpr int kThreads = 128;
  const std::size_t bytes = std::ptrdiff_t{x.rows} * x.width * sizeof(T);
  if (rounded_.size() < bytes) rounded_ = DeviceArray<unsigned char>(allocator_, bytes);
  T* rounded = reinterpret_cast<T*>(rounded_.data());
  launch(round_kernel<T>, dim3(x.rows, blocks_for(x.width, kThreads)), kThreads, 0, stream, x,
         rounded);
  gemm(rounded, x.width, weight, y, type);
}

// cuBLAS matrices are column-major: our row-major y, [T, N], is y^T to cuBLAS, N x T. It is the
// product of W, stored as its transpose, and x^T.
void CublasGemm::gemm(const void* x, std::ptrdiff_t x_stride, const CudaMatrix& weight,
                      DeviceRows y, cudaDataType_t type) {
  const float one = 1.0f, zero = 0.0f;
  const auto weight_stride = weight.row_bytes() / cpu::element_size(weight.type());
  cublas_check(cublas().gemm(handle_, CUBLAS_OP_T, CUBLAS_OP_N, y.width, y.rows, weight.width(),
                             &one, weight.data(), type, weight_stride, x, type, x_stride, &zero,
                             y.data, CUDA_R_32F, y.stride, CUBLAS_COMPUTE_32F,
                             CUBLAS_GEMM_DEFAULT));
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
