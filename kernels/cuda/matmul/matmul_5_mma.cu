// On tensor cores: a warp multiplies 16 outputs with 8 rows of x, 16 inputs per step. The weights
// are the operand with 16 rows, because N is large and T small: 8 rows of x fill their side of the
// tile. Three products per step cost little, because the weights' bytes are the limit.
//
// Lane 4 g + c takes 8 neighbouring weights of outputs g and g + 8 in two loads of 16 bytes, and 8
// neighbouring inputs of row g: enough for two steps. It waits for both before it multiplies. A sum
// stays in the tensor cores over the whole row, and each of their additions truncates.
#include <algorithm>

#include "kernels/cpu/require.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/matmul/tensor_core.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kLaneInputs = 8;  // a lane's share of a row, in two steps
constexpr int kStepInputs = 4 * kLaneInputs;
constexpr int kMostWarps = 4;

using Bf16 = __nv_bfloat16;

// A lane's weights of output n: 8 from k on. Past the end of a row they are zeros; past the last
// row, repeat the last row.
__device__ Group<Bf16> load_weights(const Weights<Bf16>& weight, int n, int k) {
  if (k >= weight.loads() * kLaneInputs) return {};
  return weight.group(min(n, weight.rows - 1), k / kLaneInputs);
}

__global__ void matmul_mma_kernel(ConstDeviceRows x, Weights<Bf16> weight, DeviceRows y) {
  const int thread = threadIdx.x, threads = blockDim.x, column = blockIdx.x, row_block = blockIdx.y;
  const int lane = thread % kWarp, g = lane / 4, c = lane % 4;
  const int warp = thread / kWarp, warps = threads / kWarp;
  const int n = column * kTileOutputs, t = row_block * kTileRows;
  const float* row = row_of(x, min(t + g, x.rows - 1));
  Tile total = {};
  // [snippet matmul-mma]
  for (int k0 = warp * kStepInputs; k0 < x.width; k0 += warps * kStepInputs) {
    const int k = k0 + c * kLaneInputs;
    const Group<Bf16> upper = load_weights(weight, n + g, k);
    const Group<Bf16> lower = load_weights(weight, n + g + 8, k);
#pragma unroll
    for (int i = 0; i < kLaneInputs; i += 4) {
      FragmentB parts[kParts];
      split(load4(row + k + i, x.width - k - i), parts);
      multiply_add(weight_fragment(upper, lower, i), parts, total);
    }
  }
  // [end snippet matmul-mma]

  __shared__ Tile of_warps[kMostWarps][kWarp];
  of_warps[warp][lane] = total;
  __syncthreads();
  if (warp > 0) return;
  for (int i = 0; i < 4; ++i) {
    for (int w = 1; w < warps; ++w) total.at[i] += of_warps[w][lane].at[i];
    const int o = n + g + i / 2 * 8, r = t + 2 * c + i % 2;
    if (o < weight.rows && r < x.rows) row_of(y, r)[o] = total.at[i];
  }
}

}  // namespace

void matmul_mma(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y, cudaStream_t stream) {
  cpu::require(weight.type() == WeightType::kBF16, "weights of type bf16");
  const Weights<Bf16> w(weight);
  const unsigned warps = std::clamp(blocks_for(x.width, 2 * kStepInputs), 1u, unsigned{kMostWarps});
  launch(matmul_mma_kernel, dim3(blocks_for(w.rows, kTileOutputs), blocks_for(x.rows, kTileRows)),
         warps * kWarp, 0, stream, x, w, y);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
