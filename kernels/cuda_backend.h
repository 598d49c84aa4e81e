#pragma once
#include <memory>

#include "kernels/ops.h"

namespace specdec {

// The matrix product of a CUDA backend: ours, whose bits do not depend on the number of rows
// (ops.h); cuBLAS, which picks another order of summation for another number of rows; or, for
// benchmarks, ours without tensor cores (kernels/cuda/matmul/matmul.h).
enum class Gemm { kInvariant, kCublas, kPlain };

// The GPU. Throws std::runtime_error where there is none that works: see cuda_support.h.
std::unique_ptr<Backend> make_cuda_backend(Gemm gemm = Gemm::kInvariant);

// The same kernels, run by the CPU one thread after the other (kernels/emulation): slow, and the
// same on every machine.
std::unique_ptr<Backend> make_emulated_backend(Gemm gemm = Gemm::kInvariant);

}  // namespace specdec
