#pragma once
#include "kernels/cuda/matmul/pipeline.h"

// What a warp of matmul_6_pipeline.cu does with a chain in shared memory: how its lanes read it,
// and the order of its sums. Device code.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// A lane's operands for one step, 16 inputs of a chain in shared memory.
//
// For bf16 weights, one ldmatrix loads all four registers of a fragment. So lane c has inputs 2 c,
// 2 c + 1 and the two that are 8 further on, and takes the same inputs of x. (With a load of 16
// bytes, a lane has 8 weights of one output. But a fragment alternates registers of two outputs,
// and the compiler copied each one for each instruction.) Rounded weights need new registers
// anyway, so lane c takes 4 neighbouring inputs.
template <typename T>
struct StepOperands;

template <>
struct StepOperands<__nv_bfloat16> {
  static constexpr int kUnits = 8;
  // Outputs o .. o + 15. o: a multiple of 16.
  static __device__ FragmentA weights(const unsigned char* chain, int o, int step) {
    return load_fragment([&](int lane) {
      const int place = place_of<kUnits>(lane % 16, lane / 16);
      return chain + place_beyond<kUnits>(place, o, 2 * step);
    });
  }
  // Row r + g. r: a multiple of 8.
  static __device__ Vector4 inputs(const unsigned char* chain, int r, int step, int g, int c) {
    const int place = place_of<16>(g, c / 2) + c % 2 * 8;
    const auto two = [&](int unit) {
      return *reinterpret_cast<const float2*>(chain + place_beyond<16>(place, r, unit));
    };
    const float2 first = two(4 * step), second = two(4 * step + 2);
    return {{first.x, first.y, second.x, second.y}};
  }
};

template <>
struct StepOperands<std::int8_t> {
  static constexpr int kUnits = 4;
  static __device__ FragmentA weights(const unsigned char* chain, int o, int step) {
    const int thread = threadIdx.x, lane = thread % kWarp,
              place = place_of<kUnits>(lane / 4, lane % 4);
    const auto four = [&](int output) {  // 16 bytes, shared by the steps
      const uint4 w =
          *reinterpret_cast<const uint4*>(chain + place_beyond<kUnits>(place, output, 0));
      return step < 2 ? (step == 0 ? w.x : w.y) : (step == 2 ? w.z : w.w);
    };
    return fragment_of_int8(four(o), four(o + 8));
  }
  static __device__ Vector4 inputs(const unsigned char* chain, int r, int step, int g, int c) {
    const int place = place_beyond<16>(place_of<16>(g, 4 * c), r, step);
    return *reinterpret_cast<const Vector4*>(chain + place);
  }
};

template <>
struct StepOperands<Q4> {
  static constexpr int kUnits = 2;
  static __device__ FragmentA weights(const unsigned char* chain, int o, int step) {
    const int thread = threadIdx.x, lane = thread % kWarp, g = lane / 4, c = lane % 4;
    const auto eight = [&](int output) {  // shared by two steps
      return reinterpret_cast<const unsigned*>(chain + place_of<kUnits>(output, step / 2))[c];
    };
    const unsigned upper = eight(o + g), lower = eight(o + g + 8);
    const int p = step % 2 * 2;
    return {{bf16_pair_of_q4(upper, p), bf16_pair_of_q4(lower, p), bf16_pair_of_q4(upper, p + 1),
             bf16_pair_of_q4(lower, p + 1)}};
  }
  static __device__ Vector4 inputs(const unsigned char* chain, int r, int step, int g, int c) {
    const int place = place_of<16>(g, unit_of_group(c));
    return *reinterpret_cast<const Vector4*>(
        chain + place_beyond<16>(place, r, step / 2 * 8 + step % 2 * 2));
  }
};

template <>
struct StepOperands<Q8> {
  static constexpr int kUnits = 4;
  static __device__ FragmentA weights(const unsigned char* chain, int o, int step) {
    const int thread = threadIdx.x, lane = thread % kWarp, place = place_of_q8(lane / 4, lane % 4);
    const auto four = [&](int output) {  // 8 bytes, shared by two steps
      const uint2 w = *reinterpret_cast<const uint2*>(
          chain + place_beyond<kUnits>(place, output, step / 2 * 2));
      return step % 2 == 0 ? w.x : w.y;
    };
    return fragment_of_int8(four(o), four(o + 8));
  }
  static __device__ Vector4 inputs(const unsigned char* chain, int r, int step, int g, int c) {
    return StepOperands<Q4>::inputs(chain, r, step, g, c);
  }
};

// A warp's chain in a stage.
template <typename S>
struct ChainOperands {
  __device__ ChainOperands(const unsigned char* stage, const WarpPlace<S>& place)
      : weights(stage + place.chain * S::kChainWeights +
                16 * S::kWeightUnits * kTileOutputs * place.output_tile),
        inputs(stage + S::kStageWeights + place.chain * S::kChainInputs +
               16 * S::kInputUnits * kTileRows * place.row_tile),
        scales(reinterpret_cast<const typename S::Scales*>(stage + place.chain * S::kChainWeights +
                                                           S::kChainNumbers) +
               kTileOutputs * place.output_tile) {}

  const unsigned char *weights, *inputs;
  const typename S::Scales* scales;  // of groups
};

// The sums of the inputs of a warp's rows, in the elements of a tile for every output.
template <typename S>
using InputSums = Tile[S::kRowTiles];

// totals += the products of steps first .. first + kSteps - 1, in one fixed order; for q4 also
// input_sums += their inputs, by a product with ones.
template <typename S, int kSteps>
__device__ void multiply_steps(const ChainOperands<S>& chain, int first, Tile (&totals)[S::kTiles],
                               [[maybe_unused]] InputSums<S>& input_sums) {
  using Operands = StepOperands<typename S::T>;
  const int thread = threadIdx.x, lane = thread % kWarp, g = lane / 4, c = lane % 4;
  [[maybe_unused]] const FragmentA ones = {{0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u}};
#pragma unroll S::kTiles> 4 ? 1 : kSteps
  for (int step = first; step < first + kSteps; ++step) {
    FragmentA w[S::kOutputTiles];
#pragma unroll
    for (int o = 0; o < S::kOutputTiles; ++o) {
      w[o] = Operands::weights(chain.weights, kTileOutputs * o, step);
    }
#pragma unroll
    for (int r = 0; r < S::kRowTiles; ++r) {
      FragmentB parts[kParts];
      split(Operands::inputs(chain.inputs, kTileRows * r, step, g, c), parts);
#pragma unroll
      for (int o = 0; o < S::kOutputTiles; ++o) {
        multiply_add(w[o], parts, totals[o * S::kRowTiles + r]);
      }
      if constexpr (S::kAddsMinimums) multiply_add(ones, parts, input_sums[r]);
    }
  }
}

// [snippet pipeline-group]
// totals += scale * sums, and for q4 + minimum * input_sums, of one group of the chain.
template <typename S>
__device__ void add_group(const typename S::Scales* scales, int group,
                          const Tile (&sums)[S::kTiles],
                          [[maybe_unused]] const InputSums<S>& input_sums,
                          Tile (&totals)[S::kTiles]) {
  const int thread = threadIdx.x, g = thread % kWarp / 4;
#pragma unroll
  for (int o = 0; o < 2 * S::kOutputTiles; ++o) {
    const auto of = scales[kTileOutputs / 2 * o + g].of[group];
    const float scale = half_bits_to_float(of.scale);
#pragma unroll
    for (int i = 0; i < 2 * S::kRowTiles; ++i) {
      const int tile = o / 2 * S::kRowTiles + i / 2, element = o % 2 * 2 + i % 2;
      float& total = totals[tile].at[element];
      total = fmaf(scale, sums[tile].at[element], total);
      if constexpr (S::kAddsMinimums) {
        total = fmaf(half_bits_to_float(of.minimum), input_sums[i / 2].at[element], total);
      }
    }
  }
}
// [end snippet pipeline-group]

// totals += the products of a warp's chain in a stage, in one fixed order.
template <typename S>
__device__ void multiply_chain(const unsigned char* stage, const WarpPlace<S>& place,
                               Tile (&totals)[S::kTiles]) {
  const ChainOperands<S> chain(stage, place);
  if constexpr (S::kScalesGroups) {
    constexpr int kSteps = kGroupElements / kTileDepth, kGroups = kChain / kGroupElements;
#pragma unroll S::kTiles> 4 ? 1 : kGroups
    for (int group = 0; group < kGroups; ++group) {
      Tile sums[S::kTiles] = {};
      InputSums<S> input_sums = {};
      multiply_steps<S, kSteps>(chain, group * kSteps, sums, input_sums);
      add_group<S>(chain.scales, group, sums, input_sums, totals);
    }
  } else {
    InputSums<S> none;
    multiply_steps<S, kChain / kTileDepth>(chain, 0, totals, none);
  }
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
