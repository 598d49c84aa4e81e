#pragma once
#include <memory>

#include "kernels/ops.h"

namespace specdec {

// The matrix product of a CUDA backend. kInvariant is ours; its bits do not depend on the number of
// rows (ops.h). cuBLAS picks the order of summation by the number of rows. kPlain is ours without
// tensor cores, for benchmarks (kernels/cuda/matmul/matmul.h).
enum class Gemm { kInvariant, kCublas, kPlain };

// The GPU. Throws std::runtime_error if none works: see cuda_support.h.
std::unique_ptr<Backend> make_cuda_backend(Gemm gemm = Gemm::kInvariant);

// The same kernels, run on the CPU one thread after the other (kernels/emulation): slow, with the
// same results on every machine.
std::unique_ptr<Backend> make_emulated_backend(Gemm gemm = Gemm::kInvariant);

}  // namespace specdec
