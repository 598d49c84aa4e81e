#pragma once
#include "kernels/cpu/require.h"
#include "kernels/cuda/bulk_copy.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/matmul/pipeline.h"

// What the products by the copy engine have in common: a ring of stages in shared memory, which one
// thread fills with boxes of weights and inputs, and where the inputs are in a box. Device code.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// A chain of an output is one row of a box, and a chain of an input row is two.
constexpr int kHalfChain = kBoxRowBytes / sizeof(float);
static_assert(kChain * sizeof(__nv_bfloat16) == kBoxRowBytes && kChain == 2 * kHalfChain);

template <int kChains_, int kOutputs_, int kRows_>
struct BoxStage {
  static constexpr int kChains = kChains_, kOutputs = kOutputs_, kRows = kRows_;
  static constexpr int kInputs = kChains * kChain;

  unsigned char weights[kChains][kOutputs * kBoxRowBytes];
  unsigned char inputs[kChains][2][kRows * kBoxRowBytes];

  static constexpr int kChainBytes = sizeof weights[0] + sizeof inputs[0];
};

// The barriers pass stages from one side to the other:
//   full[slot]    the engine has brought a stage's bytes       consumers wait
//   empty[slot]   all consumers have read the stage            the producer waits
template <typename Stage_, int kSlots_>
struct BoxRing {
  using Stage = Stage_;
  static constexpr int kSlots = kSlots_;

  Stage slots[kSlots];
  SharedBarrier full[kSlots], empty[kSlots];

  // One thread calls it, then publish_barriers(). consumers: arrive at `empty`, for each stage.
  __device__ void init(int consumers) {
    for (int slot = 0; slot < kSlots; ++slot) {
      full[slot].init(1);  // the producer arrives, and expects bytes
      empty[slot].init(consumers);
    }
  }
};

template <typename Stage>
__host__ __device__ constexpr int stages_of(int width) {
  return (width + Stage::kInputs - 1) / Stage::kInputs;
}

constexpr std::size_t kBoxAlignment = 1024;  // dynamic shared memory has less
template <typename Shared>
constexpr std::size_t kBytesWithBoxes = sizeof(Shared) + kBoxAlignment;
// The block's dynamic shared memory, of kBytesWithBoxes<Shared>. Shared: begins with boxes.
template <typename Shared>
__device__ Shared& shared_boxes() {
  unsigned char* const bytes = dynamic_shared<unsigned char>();
  const std::size_t misplaced = reinterpret_cast<std::uintptr_t>(bytes) % kBoxAlignment;
  return *reinterpret_cast<Shared*>(bytes + (kBoxAlignment - misplaced) % kBoxAlignment);
}

// Requests the boxes of one stage after the other.
template <typename Ring>
struct BoxProducer {
  using Stage = typename Ring::Stage;
  const TensorMap &weights, &inputs;
  int width, first_output, first_row;

  // REQUIRES: all lanes of one warp call it.
  __device__ void fill(Ring& ring) const {
    const int thread = threadIdx.x, lane = thread % kWarp, stages = stages_of<Stage>(width);
    // [snippet producer]
    const int at_once = lane == 0 ? min(Ring::kSlots, stages) : 0;
    for (int stage = 0; stage < at_once; ++stage) {
      request_weights(ring.slots[stage], stage, ring.full[stage]);
    }
    await_kernels_before();  // they write the inputs
    if (lane > 0) return;
    for (int stage = 0; stage < stages; ++stage) {
      const int slot = stage % Ring::kSlots, round = stage / Ring::kSlots;
      if (round > 0) {
        ring.empty[slot].wait(round - 1);
        request_weights(ring.slots[slot], stage, ring.full[slot]);
      }
      request_inputs(ring.slots[slot], stage, ring.full[slot]);
    }
    // [end snippet producer]
  }

 private:
  __device__ int chains(int stage) const {
    return min(Stage::kChains, (width - stage * Stage::kInputs + kChain - 1) / kChain);
  }
  __device__ void request_weights(Stage& to, int stage, SharedBarrier& full) const {
    full.arrive_and_expect(chains(stage) * Stage::kChainBytes);
#pragma unroll 1
    for (int chain = 0; chain < chains(stage); ++chain) {
      copy_box(to.weights[chain], weights, stage * Stage::kInputs + chain * kChain, first_output,
               full);
    }
  }
  __device__ void request_inputs(Stage& to, int stage, SharedBarrier& full) const {
#pragma unroll 1
    for (int box = 0; box < 2 * chains(stage); ++box) {
      copy_box(to.inputs[box / 2][box % 2], inputs, stage * Stage::kInputs + box * kHalfChain,
               first_row, full);
    }
  }
};

// [snippet row-of-operand]
// The row of x, of 8, at index i of the tensor cores' operand: a column in step 7, a row in step 9.
// In this order the lanes of a load use different banks, although the engine's swizzle is made for
// units of 16 bytes and they load 8.
__host__ __device__ constexpr int row_of_operand(int i) { return 2 * (i % 4) + i / 4; }
// [end snippet row-of-operand]

// The offset in a chain's first or second box of the inputs that lane `lane` takes: 2 of a step.
__host__ __device__ constexpr int place_of_inputs(int lane, int unit) {
  const int c = lane % 4;
  return place_in_box(row_of_operand(lane / 4), unit + c / 2) + c % 2 * 8;
}
constexpr bool no_inputs_wait_for_each_other() {
  bool good = true;
  for (int half_warp = 0; half_warp < 2; ++half_warp) {
    for (int unit = 0; unit < 8; unit += 2) {
      good = good && in_different_banks(16, 8, [=](int lane) {
               return place_of_inputs(16 * half_warp + lane, unit);
             });
    }
  }
  return good;
}
static_assert(no_inputs_wait_for_each_other());

// Four inputs of a chain for one step and lane 4 g + c: 2 c, 2 c + 1 and the two that are 8 further
// on, of row `row` + row_of_operand(g). chain: its two boxes; row: a multiple of 8.
template <typename Boxes>
__device__ Vector4 load_inputs(const Boxes& chain, int row, int step) {
  const int thread = threadIdx.x, lane = thread % kWarp;
  const unsigned char* const rows = chain[step / 2] + kBoxRowBytes * row;
  const auto two = [&](int unit) {
    return *reinterpret_cast<const float2*>(rows + place_of_inputs(lane, unit));
  };
  const float2 first = two(step % 2 * 4), second = two(step % 2 * 4 + 2);
  return {{first.x, first.y, second.x, second.y}};
}

// Launches a kernel for y: [T, N] whose block has a tile of Stage::kOutputs x Stage::kRows.
template <typename Stage, typename Kernel>
void launch_with_boxes(Kernel kernel, int threads, std::size_t shared_bytes, ConstDeviceRows x,
                       const CudaMatrix& weight, DeviceRows y, cudaStream_t stream) {
  cpu::require(weight.type() == WeightType::kBF16, "weights of type bf16");
  cpu::require(is_aligned(x.data) && x.stride % 4 == 0, "rows of x at multiples of 16 bytes");
  cuda_check(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  const Weights<__nv_bfloat16> w(weight);
  const TensorMap weights(reinterpret_cast<const __nv_bfloat16*>(w.data), w.rows, w.width,
                          w.row_bytes, Stage::kOutputs);
  const TensorMap inputs(x.data, x.rows, x.width, x.stride * sizeof(float), Stage::kRows);
  launch(kernel, dim3(blocks_for(x.rows, Stage::kRows), blocks_for(w.rows, Stage::kOutputs)),
         threads, shared_bytes, early(stream), weights, inputs, x.width, y);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
