#include <algorithm>
#include <bit>
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
Transfers::~Transfers() {
  cudaFreeHost(pinned_);
  free_parcels();
  for (const Large& large : large_) {
    if (large.pinned != nullptr) cudaFreeHost(large.pinned);
    if (large.done != nullptr) cudaEventDestroy(large.done);
  }
}

// [snippet transfers]
void Transfers::upload(const void* host, void* device, std::size_t bytes) {
  if (bytes == 0) return;
  if (bytes > kPinnedBytes) return upload_large(host, device, bytes);
  const void* pinned = std::memcpy(take(bytes), host, bytes);
  queue_.add_copy(device, pinned, bytes, cudaMemcpyHostToDevice);
}

void Transfers::download(const void* device, void* host, std::size_t bytes) {
  if (bytes == 0) return;
  if (bytes > kPinnedBytes) {
    queue_.submit();
    cuda_check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_));
    return wait();
  }
  void* pinned = take(bytes);
  queue_.add_copy(pinned, device, bytes, cudaMemcpyDeviceToHost);
  wait();
  std::memcpy(host, pinned, bytes);
}
// [end snippet transfers]

// From memory that is not pinned, CUDA itself would copy piece by piece, and wait for each piece.
void Transfers::upload_large(const void* host, void* device, std::size_t bytes) {
  const auto* const from = static_cast<const std::byte*>(host);
  auto* const to = static_cast<std::byte*>(device);
  queue_.submit();
  for (std::size_t at = 0; at < bytes; at += kLargeBytes) {
    Large& large = large_[at / kLargeBytes % 2];
    if (large.pinned == nullptr) check_memory(cudaMallocHost(&large.pinned, kLargeBytes));
    if (large.done == nullptr) cuda_check(cudaEventCreate(&large.done));
    cuda_check(cudaEventSynchronize(large.done));
    const std::size_t count = std::min(kLargeBytes, bytes - at);
    std::memcpy(large.pinned, from + at, count);
    cuda_check(cudaMemcpyAsync(to + at, large.pinned, count, cudaMemcpyHostToDevice, stream_));
    cuda_check(cudaEventRecord(large.done, stream_));
  }
}

Parcel Transfers::parcel(std::size_t bytes) {
  if (bytes > parcel_bytes_ - parcels_used_) wait();
  if (bytes > parcel_bytes_) {  // room for several of the largest
    queue_.forget();
    free_parcels();
    const std::size_t room = std::bit_ceil(std::max(4 * bytes, kPinnedBytes));
    check_memory(cudaMallocHost(&parcels_.host, room));
    check_memory(cudaMalloc(&parcels_.device, room));
    parcel_bytes_ = room;
  }
  return {parcels_.host + parcels_used_, parcels_.device + parcels_used_};
}

void Transfers::send(std::size_t bytes) {
  const std::size_t at = parcels_used_;
  parcels_used_ += (bytes + kParcelAlignment - 1) / kParcelAlignment * kParcelAlignment;
  queue_.add_early_copy(parcels_.device + at, parcels_.host + at, parcels_used_ - at);
}

void Transfers::free_parcels() {
  cudaFreeHost(parcels_.host);
  cudaFree(parcels_.device);
  parcels_ = {};
  parcel_bytes_ = 0;
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
  parcels_used_ = 0;
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
