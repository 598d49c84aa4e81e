#pragma once
#include <cstddef>

#include "kernels/cuda/graph_queue.h"
#include "kernels/cuda/runtime.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// A separate stream, because work on the default stream cannot be recorded as a graph. The two
// wait for each other; tests launch kernels and load models on the default stream.
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

// Copies between the host and the device, in a stream's order. Small copies go through pinned
// memory, which the device reads and writes by itself. So an upload returns before the device has
// the data, and one wait covers all earlier copies. After a wait, the same copies use the same
// pinned memory again, so they can be part of a graph. Large uploads, such as weights, go through
// two larger pieces of pinned memory in turn: one is filled while the other one is on its way.
//
// Parcels have pinned memory of their own, and as much on the device. They follow each other there,
// so all of them since the last wait are one copy, before everything else.
class Transfers {
 public:
  // The queue is the stream's, and outlives this object.
  Transfers(cudaStream_t stream, GraphQueue& queue);
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // Later launches see the data. `host` may change as soon as the call returns.
  void upload(const void* host, void* device, std::size_t bytes);
  // Includes the results of all earlier launches; `host` holds them when the call returns.
  void download(const void* device, void* host, std::size_t bytes);
  // As in Backend.
  Parcel parcel(std::size_t bytes);
  void send(std::size_t bytes);
  // Waits until all earlier work is done.
  void wait();

 private:
  static constexpr std::size_t kPinnedBytes = 256 << 10, kLargeBytes = 4 << 20;
  static constexpr std::size_t kParcelAlignment = 256;

  // Half of the memory for large uploads, and when its last copy is done.
  struct Large {
    std::byte* pinned = nullptr;
    cudaEvent_t done = nullptr;
  };

  std::byte* take(std::size_t bytes);
  void free_parcels();
  void upload_large(const void* host, void* device, std::size_t bytes);

  cudaStream_t stream_;
  GraphQueue& queue_;
  std::byte* pinned_ = nullptr;
  std::size_t used_ = 0;  // by copies since the last wait, which may still be in flight
  Parcel parcels_;
  std::size_t parcel_bytes_ = 0, parcels_used_ = 0;  // the latter since the last wait
  Large large_[2];                                   // allocated by the first large upload
};

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
