#pragma once
#include <memory>

#include "kernels/ops.h"
#include "stages/programs/run/options.h"

namespace specdec {

// The backend that --device, --threads and --gemm ask for. Throws Error if it is not available.
std::unique_ptr<Backend> make_backend(const RunOptions& options);

}  // namespace specdec
