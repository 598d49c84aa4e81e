#pragma once
#include <cstddef>

#include "kernels/cuda/graph_queue.h"
#include "kernels/cuda/runtime.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// A stream of one's own: its work can be recorded as a graph, as the default stream's cannot. It
// waits for the default stream, on which tests launch and models are loaded, and that for it.
class OwnStream {
 public:
  OwnStream();
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  operator cudaStream_t() const { return stream_; }  // NOLINT: it is one

 private:
  cudaStream_t stream_ = nullptr;
};

// Copies between the host and the device, in a stream's order. Small ones go through pinned memory,
// which the device reads and writes by itself: an upload then returns before it has happened, and
// one wait serves all that was asked for before it. The same copies after a wait use the same
// pinned memory, and so can be part of a graph.
class Transfers {
 public:
  // The queue is the stream's, and outlives this object.
  Transfers(cudaStream_t stream, GraphQueue& queue);
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // What is launched afterwards sees it. `host` may change as soon as the call returns.
  void upload(const void* host, void* device, std::size_t bytes);
  // Of what was launched before; there when the call returns.
  void download(const void* device, void* host, std::size_t bytes);
  // Until all is done that was asked for.
  void wait();

 private:
  static constexpr std::size_t kPinnedBytes = 256 << 10;

  std::byte* take(std::size_t bytes);
  void copy_and_wait(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);

  cudaStream_t stream_;
  GraphQueue& queue_;
  std::byte* pinned_ = nullptr;
  std::size_t used_ = 0;  // by copies since the last wait, which may still be under way
};

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
