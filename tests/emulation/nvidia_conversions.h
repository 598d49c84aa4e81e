#pragma once
#include <cstdint>

namespace specdec {

// The host code of NVIDIA's cuda_fp16.hpp and cuda_bf16.hpp, in a source file of its own: its types
// have the names of ours. False where it was not there at build time; the others return 0 then.
extern const bool kHaveNvidiaConversions;
float nvidia_half_to_float(std::uint16_t bits);
std::uint16_t nvidia_float_to_half(float f);
float nvidia_bfloat16_to_float(std::uint16_t bits);
std::uint16_t nvidia_float_to_bfloat16(float f);

}  // namespace specdec
