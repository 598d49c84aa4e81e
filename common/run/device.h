#pragma once
#include <memory>

#include "common/llama_model.h"
#include "common/run/options.h"
#include "kernels/ops.h"

namespace specdec {

// The backend that --device, --threads and --gemm ask for. Throws Error where it is not to be had.
std::unique_ptr<Backend> make_backend(const RunOptions& options);

// Shows on a terminal's stderr how far loading is; for models whose loading takes time.
LlamaModel::Progress loading_progress();

}  // namespace specdec
