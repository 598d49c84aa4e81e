#pragma once
#include "kernels/cuda/bulk_copy.h"
#include "kernels/cuda/matmul/tensor_core.h"

// Products of a warpgroup, four warps: wgmma.mma_async.m64n128k16 (PTX ISA, "Asynchronous warpgroup
// level matrix instructions"; compute capability 9.0 alone, compiled for sm_90a). A warp brings 16
// rows of x, and all four share 128 outputs' weights, which the tensor cores read from shared
// memory.
//
// A product runs while its threads continue. In this order:
//   fence_operands(a)         after a was written and sums were last used, and before the products
//                             that use them
//   start_product(...)        for each product; from then on, neither a nor sums may be touched
//   await_products(sums)      they are done
// All threads of the warpgroup call each of them. emulation/warpgroup.h says what the emulation
// reports. Device code.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

constexpr int kWarpgroup = 4 * kWarp;
constexpr int kGroupRows = 64, kGroupOutputs = 128;
// A thread's sums. Lane 4 g + c of warp w has in element i:
//   row 16 w + g + 8 (i / 2 % 2), output 8 (i / 4) + 2 c + i % 2
constexpr int kGroupSums = kGroupRows * kGroupOutputs / kWarpgroup;

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define SPECDEC_ASM_9_0A(...) __trap()
#else
#define SPECDEC_ASM_9_0A(...) asm volatile(__VA_ARGS__)
#endif
#define SPECDEC_4_SUMS(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define SPECDEC_16_SUMS(i) \
  SPECDEC_4_SUMS(i), SPECDEC_4_SUMS(i + 4), SPECDEC_4_SUMS(i + 8), SPECDEC_4_SUMS(i + 12)
#define SPECDEC_ALL_SUMS \
  SPECDEC_16_SUMS(0), SPECDEC_16_SUMS(16), SPECDEC_16_SUMS(32), SPECDEC_16_SUMS(48)

// [snippet describe-weights]
// The descriptor of a step's weights: 16 inputs of 128 outputs, in a box as copy_box() leaves it.
// Groups of 8 outputs are 1024 bytes apart, 64 units of 16 bytes. Mode 1 is the swizzle of 128
// bytes. The tensor cores undo it by address, so a step begins 32 bytes after the one before.
__device__ inline std::uint64_t describe_weights(const unsigned char* box, int step) {
  const std::uint64_t unit = address_in_shared(box + 32 * step) / 16, apart = 64, swizzle = 1;
  return unit | apart << 32 | swizzle << 62;
}
// [end snippet describe-weights]

__device__ inline void fence_operands(FragmentA (&a)[kParts]) {
#ifdef SPECDEC_EMULATED
  emulation::fence_registers(a[0].at, 4 * kParts);
#else
  // Registers as operands, so that the compiler does not write them later.
  SPECDEC_ASM_9_0A("wgmma.fence.sync.aligned;"
                   : "+r"(a[0].at[0]), "+r"(a[0].at[1]), "+r"(a[0].at[2]), "+r"(a[0].at[3]),
                     "+r"(a[1].at[0]), "+r"(a[1].at[1]), "+r"(a[1].at[2]), "+r"(a[1].at[3]),
                     "+r"(a[2].at[0]), "+r"(a[2].at[1]), "+r"(a[2].at[2]),
                     "+r"(a[2].at[3])::"memory");
#endif
}

// Starts sums = A B, or sums += A B if `adds`. weights: by describe_weights().
__device__ inline void start_product(const FragmentA& a, std::uint64_t weights, bool adds,
                                     float (&sums)[kGroupSums]) {
#ifdef SPECDEC_EMULATED
  emulation::start_product(a.at, weights, kGroupOutputs, adds, sums);
#else
  SPECDEC_ASM_9_0A(
      "{ .reg .pred adds;\n"
      "setp.ne.u32 adds, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, adds, 1, 1, 0; }"
      : SPECDEC_ALL_SUMS
      : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "l"(weights),
        "r"(static_cast<unsigned>(adds))
      : "memory");
#endif
}

// Returns when all products that the threads have started are done.
__device__ inline void await_products(float (&sums)[kGroupSums]) {
#ifdef SPECDEC_EMULATED
  emulation::await_products();
  static_cast<void>(sums);
#else
  SPECDEC_ASM_9_0A("wgmma.commit_group.sync.aligned;" ::: "memory");
  SPECDEC_ASM_9_0A("wgmma.wait_group.sync.aligned 0;" : SPECDEC_ALL_SUMS::"memory");
#endif
}

// Changes how many registers a thread of the warpgroup has: fewer, so that other warpgroups get
// them, or more, when there are enough. kRegisters: a multiple of 8, 24 to 256.
template <int kRegisters>
__device__ void give_registers() {
#ifndef SPECDEC_EMULATED
  SPECDEC_ASM_9_0A("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
template <int kRegisters>
__device__ void take_registers() {
#ifndef SPECDEC_EMULATED
  SPECDEC_ASM_9_0A("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
#undef SPECDEC_ASM_9_0A
#undef SPECDEC_4_SUMS
#undef SPECDEC_16_SUMS
#undef SPECDEC_ALL_SUMS

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
