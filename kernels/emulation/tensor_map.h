#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/emulation/runtime_calls.h"

// The part of CUDA's driver that makes tensor maps (CUDA Driver API, "Tensor Map Object
// Management").
enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 };
using cuuint32_t = std::uint32_t;
using cuuint64_t = std::uint64_t;
enum CUtensorMapDataType {
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7,
  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9,
};
enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE = 0 };
enum CUtensorMapSwizzle { CU_TENSOR_MAP_SWIZZLE_NONE = 0, CU_TENSOR_MAP_SWIZZLE_128B = 3 };
enum CUtensorMapL2promotion { CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2 };
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0 };

// A matrix in device memory, and the size of the boxes that copies bring.
struct CUtensorMap {
  const unsigned char* data;
  std::size_t rows, row_bytes, row_stride, element_bytes;
  std::size_t box_rows, box_row_bytes;
  CUtensorMapSwizzle swizzle;
};

namespace specdec::emulation {

// Where the 128-byte swizzle stores what belongs at an address: it changes bits 4 to 6 by bits 7 to
// 9, so it exchanges the units of 16 bytes in a row of 128.
template <typename Address>
Address swizzled(Address address) {
  return address ^ (address >> 7 & 7) << 4;
}

}  // namespace specdec::emulation

// Refuses what the driver refuses, and also what we do not use: matrices of more than two
// dimensions, gaps between elements, and a swizzle whose rows are shorter than its 128 bytes.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                void* data, const cuuint64_t* extents, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill);

enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess = 0,
  cudaDriverEntryPointSymbolNotFound = 1,
};
constexpr unsigned long long cudaEnableDefault = 0;
// Finds cuTensorMapEncodeTiled, and no other function.
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* result);
