#pragma once
#include <algorithm>
#include <memory>

#include "kernels/cuda/runtime.h"
#include "tests/benchmarks/cases.h"

// The benchmarks of the kernels on a GPU. The same sources are built for the emulation, where the
// numbers mean nothing: there they show that the benchmarks run.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

#ifdef SPECDEC_EMULATED
constexpr int kMostCopies = 2;
constexpr std::size_t kSweepBytes = std::size_t{1} << 20;
#else
constexpr int kMostCopies = 20;                            // of a job's inputs
constexpr std::size_t kSweepBytes = std::size_t{1} << 30;  // times an L2, and a third of a ms
#endif

// How many copies of `bytes` a job's inputs are, one for each run of a sample.
inline int copies_of(std::size_t bytes) {
  return std::clamp(static_cast<int>((std::size_t{2} << 30) / bytes), 1, kMostCopies);
}

void add_row_benchmarks(KernelProgram& program, Backend& backend);
void add_product_benchmarks(KernelProgram& program, Backend& backend);
void add_attention_benchmarks(KernelProgram& program, Backend& backend);
void add_sampling_benchmarks(KernelProgram& program, Backend& backend);
void add_forward_benchmarks(KernelProgram& program);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
