#include <cstring>

#include "kernels/cuda/backend/transfers.h"
#include "kernels/cuda/cuda_check.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

OwnStream::OwnStream() { cuda_check(cudaStreamCreate(&stream_)); }
OwnStream::~OwnStream() { cudaStreamDestroy(stream_); }

Transfers::Transfers(cudaStream_t stream) : stream_(stream) {
  cuda_check(cudaMallocHost(&pinned_, kPinnedBytes));
}
Transfers::~Transfers() { cudaFreeHost(pinned_); }

// [snippet transfers]
void Transfers::upload(const void* host, void* device, std::size_t bytes) {
  if (bytes == 0) return;
  const bool small = bytes <= kPinnedBytes;
  const void* from = small ? std::memcpy(take(bytes), host, bytes) : host;
  cuda_check(cudaMemcpyAsync(device, from, bytes, cudaMemcpyHostToDevice, stream_));
  if (!small) wait();
}

void Transfers::download(const void* device, void* host, std::size_t bytes) {
  if (bytes == 0) return;
  const bool small = bytes <= kPinnedBytes;
  void* to = small ? take(bytes) : host;
  cuda_check(cudaMemcpyAsync(to, device, bytes, cudaMemcpyDeviceToHost, stream_));
  wait();
  if (small) std::memcpy(host, to, bytes);
}

// [end snippet transfers]

// Room for the next copy; at its end, waits until all of it is free.
std::byte* Transfers::take(std::size_t bytes) {
  if (used_ + bytes > kPinnedBytes) wait();
  std::byte* piece = pinned_ + used_;
  used_ += bytes;
  return piece;
}

void Transfers::wait() {
  cuda_check(cudaStreamSynchronize(stream_));
  used_ = 0;
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
