// Picks the product by the type of the weights alone, never by the number of rows.
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/matmul/matmul.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

bool can_pipeline(const CudaMatrix& weight) {
  const WeightType type = weight.type();
  return type == WeightType::kBF16 || type == WeightType::kInt8 || is_grouped(type);
}

void matmul_then(Then then, ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                 cudaStream_t stream) {
  if (can_pipeline(weight)) return matmul_pipeline_then(then, x, weight, y, stream);
  matmul_rows_then(then, x, weight, y, stream);
}

void matmul(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream) {
  matmul_then(Then::kStore, x, weight, y, stream);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
