#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "kernels/cuda/backend/graphs.h"
#include "kernels/cuda/cuda_check.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

bool uses_graphs() {
  const char* value = std::getenv("SPECDEC_CUDA_GRAPHS");
  return value == nullptr || std::string_view(value) != "0";
}

GraphRecorder::~GraphRecorder() { forget_all(); }

// [snippet graph-run]
void GraphRecorder::run(const Shape& shape, const std::function<void()>& operations) {
  if (moves_ != known_moves_) forget_all();
  known_moves_ = moves_;
  const auto [found, is_new] = graphs_.try_emplace(shape);
  Recorded& recorded = found->second;
  recorded.last_use = ++uses_;
  if (is_new) {
    forget_the_oldest();
    return operations();
  }
  if (recorded.graph == nullptr) recorded.graph = record(operations);
  cuda_check(cudaGraphLaunch(recorded.graph, stream_));
}
// [end snippet graph-run]

// While the stream captures, what is launched on it is written down and not done.
cudaGraphExec_t GraphRecorder::record(const std::function<void()>& operations) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cuda_check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  try {
    operations();
  } catch (...) {
    cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  cuda_check(cudaStreamEndCapture(stream_, &graph));
  const cudaError_t error = cudaGraphInstantiateWithFlags(&executable, graph, 0);
  cudaGraphDestroy(graph);
  cuda_check(error);
  return executable;
}

void GraphRecorder::forget_all() {
  for (const auto& [shape, recorded] : graphs_) {
    if (recorded.graph != nullptr) cudaGraphExecDestroy(recorded.graph);
  }
  graphs_.clear();
}

void GraphRecorder::forget_the_oldest() {
  if (graphs_.size() <= kMostGraphs) return;
  const auto oldest = std::ranges::min_element(
      graphs_, {}, [](const auto& entry) { return entry.second.last_use; });
  if (oldest->second.graph != nullptr) cuda_check(cudaGraphExecDestroy(oldest->second.graph));
  graphs_.erase(oldest);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
