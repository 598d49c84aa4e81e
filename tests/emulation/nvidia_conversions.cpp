#include "tests/emulation/nvidia_conversions.h"

#if __has_include(<cuda_fp16.h>)
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace specdec {

const bool kHaveNvidiaConversions = true;
float nvidia_half_to_float(std::uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
std::uint16_t nvidia_float_to_half(float f) { return __half_as_ushort(__float2half(f)); }
float nvidia_bfloat16_to_float(std::uint16_t bits) {
  return __bfloat162float(__ushort_as_bfloat16(bits));
}
std::uint16_t nvidia_float_to_bfloat16(float f) {
  return __bfloat16_as_ushort(__float2bfloat16(f));
}

}  // namespace specdec

#else

namespace specdec {

const bool kHaveNvidiaConversions = false;
float nvidia_half_to_float(std::uint16_t) { return 0.0f; }
std::uint16_t nvidia_float_to_half(float) { return 0; }
float nvidia_bfloat16_to_float(std::uint16_t) { return 0.0f; }
std::uint16_t nvidia_float_to_bfloat16(float) { return 0; }

}  // namespace specdec

#endif
