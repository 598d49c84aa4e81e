#pragma once
#include <memory>

#include "common/run/options.h"
#include "kernels/ops.h"

namespace specdec {

// The backend that --device, --threads and --gemm ask for. Throws Error where it is not to be had.
std::unique_ptr<Backend> make_backend(const RunOptions& options);

}  // namespace specdec
