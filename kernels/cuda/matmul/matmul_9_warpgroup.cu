// On tensor cores, by warpgroups, for many rows. In steps 5 to 8 each warp multiplies by itself,
// and loads both operands into its registers. Here four warps multiply 64 rows by 128 outputs
// together. The tensor cores read the weights from shared memory, where the copy engine has left
// them. Only the inputs are loaded, since they must be split. The instruction is asynchronous:
// while a step is multiplied, the warps split the inputs of the next one.
//
// A block has two consumer warpgroups, which share the weights: 128 rows x 128 outputs. A stage is
// one chain of 64 inputs, with 16 KiB of weights and 32 KiB of inputs. The consumers need more than
// the 168 registers that each of 384 threads can have. So the warpgroup of the producer gives away
// most of its own.
//
// The order of sums is that of step 6. The bits are the same only if the tensor cores add equally
// in both instructions, which NVIDIA does not say: warpgroup_kernel_test compares them.
#include "kernels/cuda/matmul/boxes.h"
#include "kernels/cuda/matmul/warpgroup.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kGroups = 2, kConsumers = kGroups * kWarpgroup / kWarp;
constexpr int kThreads = kWarpgroup * (kGroups + 1);
constexpr int kRegisters = 232, kProducersRegisters = 40;
static_assert(kWarpgroup * (kGroups * kRegisters + kProducersRegisters) <= 65536);
// Code for other architectures only traps. Its launch bound is one warp, by which
// can_run_matmul_warpgroup() knows it.
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
[[maybe_unused]] constexpr int kMostThreads = kWarp;
#else
[[maybe_unused]] constexpr int kMostThreads = kThreads;
#endif

using Stage = BoxStage<1, kGroupOutputs, kGroups * kGroupRows>;
using Ring = BoxRing<Stage, 4>;

// The warp's 16 rows of x as operands of a step: each of the three is one part of the inputs.
__device__ void split_rows(const Stage& stage, int row, int step, FragmentA (&parts)[kParts]) {
  FragmentB upper[kParts], lower[kParts];
  split(load_inputs(stage.inputs[0], row, step), upper);
  split(load_inputs(stage.inputs[0], row + 8, step), lower);
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    parts[p] = {{upper[p].at[0], lower[p].at[0], upper[p].at[1], lower[p].at[1]}};
  }
}

// [snippet multiply-chain]
// The products of a chain, in the order of step 6. They are in flight together, so each step has
// registers of its own.
__device__ void multiply_chain(const Stage& stage, int row, float (&sums)[kGroupSums]) {
  constexpr int kSteps = kChain / kTileDepth;
  FragmentA parts[kSteps][kParts];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const std::uint64_t weights = describe_weights(stage.weights[0], step);
    split_rows(stage, row, step, parts[step]);
    fence_operands(parts[step]);
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      start_product(parts[step][p], weights, step + p > 0, sums);
    }
  }
  await_products(sums);
}
// [end snippet multiply-chain]

__device__ void write_rows(const float (&total)[kGroupSums], int first_output, int first_row,
                           DeviceRows y) {
  const int thread = threadIdx.x, g = thread % kWarp / 4, c = thread % 4;
#pragma unroll
  for (int i = 0; i < kGroupSums; ++i) {
    const int output = first_output + i / 4 * 8 + 2 * c + i % 2;
    const int row = first_row + i / 2 % 2 * 8 + row_of_operand(g);
    if (output < y.width && row < y.rows) row_of(y, row)[output] = total[i];
  }
}

__global__ void __launch_bounds__(kMostThreads, 1)
    matmul_warpgroup_kernel(const __grid_constant__ TensorMap weights,
                            const __grid_constant__ TensorMap inputs, int width, DeviceRows y) {
  const int thread = threadIdx.x, warp = thread / kWarp, lane = thread % kWarp;
  const int first_output = blockIdx.y * Stage::kOutputs, first_row = blockIdx.x * Stage::kRows;
  auto& ring = shared_boxes<Ring>();

  if (thread == 0) {
    ring.init(kConsumers);
    publish_barriers();
  }
  __syncthreads();

  if (warp >= kConsumers) {
    give_registers<kProducersRegisters>();
    if (warp > kConsumers) return await_kernels_before();  // as every thread must, or end
    return BoxProducer<Ring>{weights, inputs, width, first_output, first_row}.fill(ring);
  }
  take_registers<kRegisters>();

  await_kernels_before();
  const int row = 16 * warp;  // the warp's first in the block's tile
  // [snippet warpgroup]
  float total[kGroupSums] = {};
  for (int stage = 0; stage < stages_of<Stage>(width); ++stage) {
    const int slot = stage % Ring::kSlots;
    float chain[kGroupSums];
    ring.full[slot].wait(stage / Ring::kSlots);
    multiply_chain(ring.slots[slot], row, chain);
    __syncwarp();
    if (lane == 0) ring.empty[slot].arrive();
#pragma unroll
    for (int i = 0; i < kGroupSums; ++i) total[i] += chain[i];
  }
  // [end snippet warpgroup]
  write_rows(total, first_output, first_row + row, y);
}

}  // namespace

bool can_run_matmul_warpgroup() {
#ifdef SPECDEC_EMULATED
  return true;
#else
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, matmul_warpgroup_kernel) == cudaSuccess &&
         attributes.maxThreadsPerBlock >= kThreads;
#endif
}

void matmul_warpgroup(ConstDeviceRows x, const CudaMatrix& weight, DeviceRows y,
                      cudaStream_t stream) {
  launch_with_boxes<Stage>(matmul_warpgroup_kernel, kThreads, kBytesWithBoxes<Ring>, x, weight, y,
                           stream);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
