// By tensor cores: a warp multiplies 16 outputs with 8 rows of x, 16 inputs a step. The weights are
// the operand of 16 rows, because N is large and T small: 8 rows of x fill their side of the tile.
//
// The tensor cores take bfloat16, and so do the weights come; x is split into three parts, each the
// rounding of what the ones before left over: 3 x 8 bits hold float32's 24. Three products a step
// cost little where the weights' bytes are the limit.
//
// A sum has no order inside a step, so any 16 inputs may be its 16, if both operands agree. Lane
// 4 g + c takes 8 neighbouring weights of outputs g and g + 8 in two loads of 16 bytes, and 8
// neighbouring inputs of row g: enough for two steps.
#include <algorithm>

#include "kernels/cpu/require.h"
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/vector4.h"
#include "kernels/cuda/weights.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kOutputs = 16, kRows = 8;  // of a warp's tile
constexpr int kLaneInputs = 8;           // a lane's share of a row, in two steps
constexpr int kStepInputs = 4 * kLaneInputs;
constexpr int kMostWarps = 4;

using Bf16 = __nv_bfloat16;

// Operands as mma.m16n8k16 wants them (PTX ISA, "Matrix fragments for mma.m16n8k16"): a lane
// 4 g + c holds of A, 16 x 16, elements [g][2c + j], [g + 8][2c + j], [g][2c + 8 + j] and
// [g + 8][2c + 8 + j] for j = 0, 1; of B, 16 x 8, [2c + j][g] and [2c + 8 + j][g]; of the result,
// 16 x 8, [g][2c + j] and [g + 8][2c + j].
struct alignas(4) FragmentA {
  Bf16 at[8];
};
struct alignas(4) FragmentB {
  Bf16 at[4];
};
struct Tile {
  float at[4];
};

// total += A B. REQUIRES: all 32 lanes call it.
__device__ void multiply_add(const FragmentA& a, const FragmentB& b, Tile& total) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned a_bits[4], b_bits[2];
  memcpy(a_bits, &a, sizeof a);
  memcpy(b_bits, &b, sizeof b);
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(total.at[0]), "+f"(total.at[1]), "+f"(total.at[2]), "+f"(total.at[3])
      : "r"(a_bits[0]), "r"(a_bits[1]), "r"(a_bits[2]), "r"(a_bits[3]), "r"(b_bits[0]),
        "r"(b_bits[1]));
#else  // the same by shuffles, one input after the other
  const int lane = static_cast<int>(threadIdx.x) % kWarp, g = lane / 4, c = lane % 4;
  for (int k = 0; k < 16; ++k) {
    const int owner = k % 8 / 2, j = k % 2, half = k / 8;  // of A's column k and B's row k
    float of_a[2], of_b[2];
    for (int i = 0; i < 2; ++i) {
      const float mine = to_float(a.at[4 * half + 2 * i + j]);
      of_a[i] = __shfl_sync(kAllLanes, mine, 4 * g + owner);
    }
    for (int i = 0; i < 2; ++i) {
      const float mine = to_float(b.at[2 * half + j]);
      of_b[i] = __shfl_sync(kAllLanes, mine, 4 * (2 * c + i) + owner);
    }
    for (int i = 0; i < 4; ++i) total.at[i] = fmaf(of_a[i / 2], of_b[i % 2], total.at[i]);
  }
#endif
}

// Takes the rounding of v away from it, and returns it.
__device__ Bf16 split_off(float& v) {
  const Bf16 part = __float2bfloat16(v);
  v -= to_float(part);
  return part;
}

// A lane's weights of output n, or of the last one: 8 from k on, zeros behind the row.
__device__ Group<Bf16> load_weights(const Weights<Bf16>& weight, int n, int k) {
  if (k >= weight.groups() * kLaneInputs) return {};
  return weight.group(min(n, weight.rows - 1), k / kLaneInputs);
}

// total += the products of a lane's 8 inputs and 2 x 8 weights with those of the other lanes.
__device__ void multiply_step(const Group<Bf16>& upper, const Group<Bf16>& lower, const float* row,
                              int count, Tile& total) {
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    FragmentA a;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      a.at[i] = (i % 4 < 2 ? upper : lower).at[4 * step + i / 4 * 2 + i % 2];
    }
    Vector4 inputs = load4(row + 4 * step, count - 4 * step);
    FragmentB parts[3];  // high, middle, low
#pragma unroll
    for (FragmentB& part : parts) {
#pragma unroll
      for (int i = 0; i < 4; ++i) part.at[i] = split_off(inputs.at[i]);
    }
#pragma unroll
    for (int i = 2; i >= 0; --i) multiply_add(a, parts[i], total);  // small numbers first
  }
}

__global__ void matmul_mma_kernel(ConstDeviceRows x, Weights<Bf16> weight, DeviceRows y) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, g = lane / 4, c = lane % 4;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int n = static_cast<int>(blockIdx.x) * kOutputs, t = static_cast<int>(blockIdx.y) * kRows;
  const float* row = row_of(x, min(t + g, x.rows - 1));
  Tile total = {};
  for (int k0 = warp * kStepInputs; k0 < x.width;
       k0 += static_cast<int>(blockDim.x) / kWarp * kStepInputs) {
    const int k = k0 + c * kLaneInputs;
    multiply_step(load_weights(weight, n + g, k), load_weights(weight, n + g + 8, k), row + k,
                  x.width - k, total);
  }

  __shared__ Tile of_warps[kMostWarps][kWarp];
  of_warps[warp][lane] = total;
  __syncthreads();
  if (warp > 0) return;
  for (int i = 0; i < 4; ++i) {
    for (int w = 1; w < static_cast<int>(blockDim.x) / kWarp; ++w) {
      total.at[i] += of_warps[w][lane].at[i];
    }
    const int o = n + g + i / 2 * 8, r = t + 2 * c + i % 2;
    if (o < weight.rows && r < x.rows) row_of(y, r)[o] = total.at[i];
  }
}

}  // namespace

void matmul_mma(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream) {
  cpu::require(weight.type() == WeightType::kBF16, "weights of type bf16");
  const Weights<Bf16> w(weight);
  const unsigned warps = std::clamp(blocks_for(x.width, 2 * kStepInputs), 1u, unsigned{kMostWarps});
  launch(matmul_mma_kernel, dim3(blocks_for(w.rows, kOutputs), blocks_for(x.rows, kRows)),
         warps * kWarp, 0, stream, x, w, y);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
