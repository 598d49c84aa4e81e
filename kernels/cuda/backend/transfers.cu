#include <cstring>
#include <new>

#include "kernels/cuda/backend/transfers.h"
#include "kernels/cuda/cuda_check.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

namespace {

// A lack of memory becomes std::bad_alloc.
void check_memory(cudaError_t error) {
  if (error != cudaErrorMemoryAllocation) return cuda_check(error);
  cudaGetLastError();  // clears it
  throw std::bad_alloc();
}

}  // namespace

OwnStream::OwnStream() { check_memory(cudaStreamCreate(&stream_)); }
OwnStream::~OwnStream() { cudaStreamDestroy(stream_); }

Transfers::Transfers(cudaStream_t stream, GraphQueue& queue) : stream_(stream), queue_(queue) {
  check_memory(cudaMallocHost(&pinned_, kPinnedBytes));
}
Transfers::~Transfers() { cudaFreeHost(pinned_); }

// [snippet transfers]
void Transfers::upload(const void* host, void* device, std::size_t bytes) {
  if (bytes == 0) return;
  if (bytes > kPinnedBytes) return copy_and_wait(device, host, bytes, cudaMemcpyHostToDevice);
  const void* pinned = std::memcpy(take(bytes), host, bytes);
  queue_.add_copy(device, pinned, bytes, cudaMemcpyHostToDevice);
}

void Transfers::download(const void* device, void* host, std::size_t bytes) {
  if (bytes == 0) return;
  if (bytes > kPinnedBytes) return copy_and_wait(host, device, bytes, cudaMemcpyDeviceToHost);
  void* pinned = take(bytes);
  queue_.add_copy(pinned, device, bytes, cudaMemcpyDeviceToHost);
  wait();
  std::memcpy(host, pinned, bytes);
}
// [end snippet transfers]

void Transfers::copy_and_wait(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  queue_.submit();
  cuda_check(cudaMemcpyAsync(to, from, bytes, kind, stream_));
  wait();
}

// Takes pinned memory for the next copy. If not enough is left, waits until all of it is free.
std::byte* Transfers::take(std::size_t bytes) {
  if (used_ + bytes > kPinnedBytes) wait();
  std::byte* piece = pinned_ + used_;
  used_ += bytes;
  return piece;
}

void Transfers::wait() {
  queue_.submit();
  cuda_check(cudaStreamSynchronize(stream_));
  used_ = 0;
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
