// Makes tensor maps. The function for it is the driver's, so it is asked for at run time.
#include <stdexcept>

#include "kernels/cuda/bulk_copy.h"
#include "kernels/cuda/early.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

// The driver's function, of the CUDA version that brought it.
auto encode_function() {
  constexpr unsigned kVersion = 12000;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  cuda_check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kVersion,
                                              cudaEnableDefault, &result));
  if (result != cudaDriverEntryPointSuccess) {
    throw std::runtime_error("CUDA: the driver has no tensor maps");
  }
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
}

CUtensorMap encode(CUtensorMapDataType type, int element_bytes, const void* data, int rows,
                   int width, std::size_t row_bytes, int box_rows) {
  static const auto encode_tiled = encode_function();
  const cuuint64_t extents[] = {static_cast<cuuint64_t>(width), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {row_bytes};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(kBoxRowBytes / element_bytes),
                            static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t no_gaps[] = {1, 1};
  CUtensorMap map;
  const CUresult result =
      encode_tiled(&map, type, 2, const_cast<void*>(data), extents, strides, box, no_gaps,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                   CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw std::runtime_error("CUDA: the driver refuses a tensor map of " + std::to_string(rows) +
                             " rows of " + std::to_string(width) + " elements, " +
                             std::to_string(row_bytes) + " bytes apart");
  }
  return map;
}

}  // namespace

bool can_copy_boxes(const void* kernel) { return has_code_for_9_0(kernel); }

TensorMap::TensorMap(const float* data, int rows, int width, std::size_t row_bytes, int box_rows)
    : map_(encode(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, data, rows, width, row_bytes, box_rows)) {}

TensorMap::TensorMap(const __nv_bfloat16* data, int rows, int width, std::size_t row_bytes,
                     int box_rows)
    : map_(encode(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, data, rows, width, row_bytes, box_rows)) {}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
