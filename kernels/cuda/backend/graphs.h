#pragma once
#include <cstdint>
#include <map>

#include "kernels/cuda/runtime.h"
#include "kernels/ops.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// SPECDEC_CUDA_GRAPHS=0: every operation is launched by itself.
bool uses_graphs();

// Records the launches of a shape as a CUDA graph when they are asked for the second time, and
// launches the graph from then on: one call for hundreds. The first time has set up what launches
// need. A recording must not wait, so the engine records a pass but not the choice after it.
class GraphRecorder final : public Recorder {
 public:
  // moves: how often the backend's scratch memory, which graphs point to, has moved so far.
  // REQUIRES: both outlive this object.
  GraphRecorder(cudaStream_t stream, const int& moves) : stream_(stream), moves_(moves) {}
  ~GraphRecorder() override;
  GraphRecorder(const GraphRecorder&) = delete;
  GraphRecorder& operator=(const GraphRecorder&) = delete;

  void run(const Shape& shape, const std::function<void()>& operations) override;

 private:
  // A graph takes memory on the device, some hundred bytes for each of its launches.
  static constexpr std::size_t kMostGraphs = 64;

  struct Recorded {
    cudaGraphExec_t graph = nullptr;  // null: seen once
    std::uint64_t last_use = 0;
  };

  cudaGraphExec_t record(const std::function<void()>& operations);
  void forget_the_oldest();
  void forget_all();

  cudaStream_t stream_;
  const int& moves_;
  int known_moves_ = 0;
  std::map<Shape, Recorded> graphs_;
  std::uint64_t uses_ = 0;
};

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
