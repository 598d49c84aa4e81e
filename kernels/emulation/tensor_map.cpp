#include "kernels/emulation/tensor_map.h"

#include <cstring>

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                void* data, const cuuint64_t* extents, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* element_strides,
                                CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  constexpr cuuint64_t kMostExtent = cuuint64_t{1} << 32, kMostStride = cuuint64_t{1} << 40;
  constexpr cuuint32_t kMostBox = 256, kSwizzleBytes = 128;
  if (rank != 2 || reinterpret_cast<std::uintptr_t>(data) % 16 != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::size_t element_bytes = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 ? 4 : 2;
  const std::size_t box_row_bytes = box[0] * element_bytes;
  for (int i = 0; i < 2; ++i) {
    if (extents[i] < 1 || extents[i] > kMostExtent || box[i] < 1 || box[i] > kMostBox ||
        element_strides[i] != 1) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (strides[0] % 16 != 0 || strides[0] >= kMostStride || box_row_bytes % 16 != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (swizzle == CU_TENSOR_MAP_SWIZZLE_128B && box_row_bytes != kSwizzleBytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *map = {static_cast<const unsigned char*>(data),
          extents[1],
          extents[0] * element_bytes,
          strides[0],
          element_bytes,
          box[1],
          box_row_bytes,
          swizzle};
  return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const bool known = std::strcmp(name, "cuTensorMapEncodeTiled") == 0;
  *function = known ? reinterpret_cast<void*>(cuTensorMapEncodeTiled) : nullptr;
  *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
