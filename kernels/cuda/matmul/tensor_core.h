#pragma once
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/vector4.h"
#include "kernels/cuda/weights.h"

// Products of float32 on tensor cores, which multiply bf16. Weights of bf16 and rounded ones are
// exact in bf16 (without their scales), and x is split into three parts of 8 bits, which hold all
// its 24 bits. Device code.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

constexpr int kTileOutputs = 16, kTileRows = 8, kTileDepth = 16;
constexpr int kParts = 3;

// Operands of mma.m16n8k16 (PTX ISA, "Matrix fragments for mma.m16n8k16"), two bf16 per register.
// Lane 4 g + c holds these elements:
//   A, 16 x 16       half j of register r: [g + 8 (r % 2)][2 c + 8 (r / 2) + j]
//   B, 16 x 8        half j of register r: [2 c + 8 r + j][g]
//   result, 16 x 8   element i:            [g + 8 (i / 2)][2 c + i % 2]
//
// Inside a step, the order of inputs does not matter, so a step may use any 16 inputs if both
// operands agree. Lane c takes 4 neighbouring inputs, so that its loads are wide.
struct FragmentA {
  unsigned at[4];
};
struct FragmentB {
  unsigned at[2];
};
struct alignas(16) Tile {
  float at[4];
};

// total += A B[0], then A B[1], and so on. REQUIRES: all 32 lanes call it.
__device__ inline void multiply_add(const FragmentA& a, const FragmentB (&b)[kParts], Tile& total) {
#ifdef SPECDEC_EMULATED
  emulation::multiply_tiles(a.at, b[0].at, kParts, total.at);
#else
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(total.at[0]), "+f"(total.at[1]), "+f"(total.at[2]), "+f"(total.at[3])
        : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b[i].at[0]), "r"(b[i].at[1]));
  }
#endif
}

// The upper halves of two floats: as bf16, their leading 8 bits.
__device__ inline unsigned leading_bits(float first, float second) {
  return __float_as_uint(first) >> 16 | (__float_as_uint(second) & 0xffff0000u);
}

// [snippet split]
// Splits four neighbouring inputs into three operands that add up to them, the smallest first. Each
// part and each remainder is exact: the parts have 8 bits each, and a float has 24. Only bits below
// 2^-133, the last of bf16, are lost.
__device__ inline void split(Vector4 x, FragmentB (&parts)[kParts]) {
#pragma unroll
  for (int p = kParts - 1; p >= 0; --p) {
    parts[p] = {leading_bits(x.at[0], x.at[1]), leading_bits(x.at[2], x.at[3])};
#pragma unroll
    for (int i = 0; i < 4; ++i) x.at[i] -= __uint_as_float(__float_as_uint(x.at[i]) & 0xffff0000u);
  }
}
// [end snippet split]

// The fragment of a lane's weights i .. i + 3 of outputs g and g + 8.
__device__ inline FragmentA weight_fragment(const Group<__nv_bfloat16>& upper,
                                            const Group<__nv_bfloat16>& lower, int i) {
  const auto pair = [](const Group<__nv_bfloat16>& w, int at) {
    unsigned two;
    memcpy(&two, &w.at[at], sizeof two);
    return two;
  };
  return {{pair(upper, i), pair(lower, i), pair(upper, i + 2), pair(lower, i + 2)}};
}

// Numbers kFirst and kFirst + 1 of four int8 as bf16, which holds them exactly. In floats above
// 2^23, the last byte counts ones. So a subtraction replaces the conversion, which has an eighth of
// its throughput on a multiprocessor.
template <int kFirst>
__device__ unsigned bf16_pair(unsigned four) {
  const auto number = [&](unsigned i) {
    const unsigned byte = __byte_perm(four ^ 0x80808080u, 0x4b000000u, 0x7440u | i);
    return __uint_as_float(byte) - (0x1p23f + 128.0f);  // the byte is 128 more than the number
  };
  return leading_bits(number(kFirst), number(kFirst + 1));
}

// The fragment of a lane's four int8 of each of outputs g and g + 8.
__device__ inline FragmentA fragment_of_int8(unsigned upper, unsigned lower) {
  return {{bf16_pair<0>(upper), bf16_pair<0>(lower), bf16_pair<2>(upper), bf16_pair<2>(lower)}};
}

// Numbers p and p + 4 of eight q as bf16, which are neighbours by q4_bit(). Between 128 and 256,
// the last bit of bf16 counts ones. So the bits of q make 128 + q there, in both halves of a word.
__device__ inline unsigned bf16_pair_of_q4(unsigned eight, int p) {
  const unsigned shifted = eight >> 4 * p, mask = 0x000f000fu, of_128 = 0x43004300u;
#ifdef SPECDEC_EMULATED
  const unsigned above = (shifted & mask) | of_128;
  return leading_bits(__uint_as_float(above << 16) - 128.0f,
                      __uint_as_float(above & 0xffff0000u) - 128.0f);
#else
  // (shifted & mask) | of_128 in one instruction, which the compiler does not find; times 1 - 128.
  unsigned pair;
  asm("{\n\t"
      ".reg .b32 above;\n\t"
      "lop3.b32 above, %1, %2, %3, 0xea;\n\t"
      "fma.rn.bf16x2 %0, above, %4, %5;\n\t"
      "}"
      : "=r"(pair)
      : "r"(shifted), "r"(mask), "r"(of_128), "r"(0x3f803f80u), "r"(0xc300c300u));
  return pair;
#endif
}

// Loads A from shared memory (ldmatrix; PTX ISA, "Warp-level matrix load instruction"). row(l) is
// the address of 8 neighbouring bf16 of output l % 16: inputs 0 .. 7 for l < 16, otherwise inputs 8
// .. 15. REQUIRES: all 32 lanes call it.
template <typename Row>
__device__ FragmentA load_fragment(const Row& row) {
  const int thread = threadIdx.x, lane = thread % kWarp;
  FragmentA a;
#ifdef SPECDEC_EMULATED
  for (int r = 0; r < 4; ++r) {
    a.at[r] = reinterpret_cast<const unsigned*>(row(8 * r + lane / 4))[lane % 4];
  }
#else
  const unsigned address = __cvta_generic_to_shared(row(lane));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a.at[0]), "=r"(a.at[1]), "=r"(a.at[2]), "=r"(a.at[3])
               : "r"(address)
               : "memory");
#endif
  return a;
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
