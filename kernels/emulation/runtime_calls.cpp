#include "kernels/emulation/runtime_calls.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>

#include <unistd.h>

#include "kernels/emulation/block_memory.h"
#include "kernels/emulation/scheduler.h"
#include "kernels/emulation/streams.h"

namespace {

using specdec::emulation::counted;
using specdec::emulation::failed;

cudaError_t last_error = cudaSuccess;

// The bytes that cudaFuncSetAttribute has allowed for each kernel.
std::map<const void*, std::size_t>& allowed_shared_bytes() {
  static std::map<const void*, std::size_t> allowed;
  return allowed;
}

constexpr std::size_t kDeviceAlignment = 256;

// The device's memory in bytes, if SPECDEC_EMULATED_MEMORY limits it.
std::optional<std::size_t> memory_limit() {
  const char* limit = std::getenv("SPECDEC_EMULATED_MEMORY");
  return limit ? std::optional(std::strtoull(limit, nullptr, 10)) : std::nullopt;
}

// The blocks allocated from a limited memory. (Without a limit, blocks are not listed, because a
// leak checker would not report a block that is still listed.) Never destroyed: static objects may
// own blocks.
std::map<void*, std::size_t>& limited_blocks() {
  static auto& blocks = *new std::map<void*, std::size_t>;
  return blocks;
}

// What fresh memory holds: a NaN as float32, and as two numbers of 16 bits. No result is this one.
constexpr std::uint32_t kFresh = 0xfffeffff;

void fill_fresh(void* block, std::size_t bytes) {
  std::fill_n(static_cast<std::uint32_t*>(block), bytes / sizeof kFresh, kFresh);
  std::memcpy(static_cast<char*>(block) + bytes / sizeof kFresh * sizeof kFresh, &kFresh,
              bytes % sizeof kFresh);
}

std::size_t fresh_bytes(const void* data, std::size_t bytes) {
  std::size_t count = 0;
  for (std::size_t at = 0; at + sizeof kFresh <= bytes; at += sizeof kFresh) {
    count += std::memcmp(static_cast<const char*>(data) + at, &kFresh, sizeof kFresh) == 0;
  }
  return count * sizeof kFresh;
}

cudaError_t allocate(void** block, std::size_t bytes) {
  *block = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (specdec::emulation::spoils_a_capture()) return failed(cudaErrorStreamCaptureUnsupported);
  ++counted().allocations;
  std::size_t free_bytes, total_bytes;
  cudaMemGetInfo(&free_bytes, &total_bytes);
  if (bytes > (memory_limit() ? free_bytes : total_bytes)) return failed(cudaErrorMemoryAllocation);
  if (posix_memalign(block, kDeviceAlignment, bytes) != 0) return failed(cudaErrorMemoryAllocation);
  if (memory_limit()) limited_blocks()[*block] = bytes;
  fill_fresh(*block, bytes);
  return cudaSuccess;
}

}  // namespace

namespace specdec::emulation {

cudaError_t failed(cudaError_t error) { return last_error = error; }

}  // namespace specdec::emulation

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureUnmatched:
      return "cudaErrorStreamCaptureUnmatched";
    case cudaErrorInvalidClusterSize:
      return "cudaErrorInvalidClusterSize";
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureUnmatched:
      return "the capture was not initiated in this stream";
    case cudaErrorInvalidClusterSize:
      return "cluster misconfiguration";
  }
  return "unrecognized error code";
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }

// ---- memory

cudaError_t cudaMalloc(void** block, std::size_t bytes) { return allocate(block, bytes); }
cudaError_t cudaFree(void* block) {
  if (specdec::emulation::spoils_a_capture()) return failed(cudaErrorStreamCaptureUnsupported);
  specdec::emulation::finish_all();  // as CUDA does: running work may still use the block
  limited_blocks().erase(block);
  std::free(block);
  return cudaSuccess;
}
// Host memory, to which the device's limit does not apply.
cudaError_t cudaMallocHost(void** block, std::size_t bytes) {
  if (specdec::emulation::spoils_a_capture()) return failed(cudaErrorStreamCaptureUnsupported);
  ++counted().allocations;
  *block = std::malloc(bytes);
  return *block != nullptr || bytes == 0 ? cudaSuccess : failed(cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeHost(void* block) {
  if (specdec::emulation::spoils_a_capture()) return failed(cudaErrorStreamCaptureUnsupported);
  specdec::emulation::finish_all();
  std::free(block);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  const std::size_t page = sysconf(_SC_PAGESIZE);
  *total_bytes = page * sysconf(_SC_PHYS_PAGES);
  *free_bytes = page * sysconf(_SC_AVPHYS_PAGES);
  if (const auto limit = memory_limit()) {
    *total_bytes = *free_bytes = *limit;
    for (const auto& [block, bytes] : limited_blocks()) *free_bytes -= bytes;
  }
  return cudaSuccess;
}

namespace {

void count_copy(cudaMemcpyKind kind) {
  counted().downloads += kind == cudaMemcpyDeviceToHost;
  counted().uploads += kind == cudaMemcpyHostToDevice;
  counted().device_copies += kind == cudaMemcpyDeviceToDevice;
}
void count_bytes(std::size_t bytes, cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDeviceToHost) counted().bytes_to_host += bytes;
  if (kind == cudaMemcpyHostToDevice) counted().bytes_to_device += bytes;
}

}  // namespace

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const bool in_graph = specdec::emulation::is_capturing(stream);  // which may be launched often
  if (!in_graph) {
    count_copy(kind);
    count_bytes(bytes, kind);
  }
  specdec::emulation::enqueue(stream, [=] {
    if (in_graph) count_bytes(bytes, kind);
    if (bytes > 0) std::memmove(to, from, bytes);
    if (kind == cudaMemcpyDeviceToHost) counted().unwritten_to_host += fresh_bytes(to, bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  ++counted().waits;
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t rows, cudaMemcpyKind kind) {
  if (width > to_pitch || width > from_pitch) return failed(cudaErrorInvalidValue);
  for (std::size_t i = 0; i < rows; ++i) {
    cudaMemcpy(static_cast<char*>(to) + i * to_pitch,
               static_cast<const char*>(from) + i * from_pitch, width, kind);
  }
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, nullptr);
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  specdec::emulation::enqueue(stream, [=] {
    if (bytes > 0) std::memset(to, value, bytes);
  });
  return cudaSuccess;
}

// ---- the device

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : failed(cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return failed(cudaErrorInvalidDevice);
  *properties = {"CUDA emulated on the CPU",
                 9,
                 0,
                 132,
                 32,
                 1024,
                 specdec::emulation::kSharedBytes,
                 specdec::emulation::kSharedBytesOptin,
                 0};
  std::size_t free_bytes;
  return cudaMemGetInfo(&free_bytes, &properties->totalGlobalMem);
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  constexpr int kMost = specdec::emulation::kSharedBytesOptin;
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > kMost) {
    return failed(cudaErrorInvalidValue);
  }
  allowed_shared_bytes()[kernel] = value;
  return cudaSuccess;
}

namespace specdec::emulation {

bool can_launch(const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
                unsigned cluster) {
  const auto allowed = allowed_shared_bytes().find(kernel);
  const std::size_t most = allowed == allowed_shared_bytes().end() ? kSharedBytes : allowed->second;
  const bool good_grid = grid.x >= 1 && grid.y >= 1 && grid.z >= 1 && grid.x <= 0x7fffffff &&
                         grid.y <= 65535 && grid.z <= 65535;
  const bool good_block = block.x >= 1 && block.y >= 1 && block.z >= 1 && block.x <= kMaxThreads &&
                          block.y <= kMaxThreads && block.z <= 64 &&
                          block.x * block.y * block.z <= kMaxThreads;
  const bool good_cluster = cluster >= 1 && cluster <= kMostOfCluster && grid.x % cluster == 0;
  cudaError_t error = cudaSuccess;
  if (!good_cluster) error = cudaErrorInvalidClusterSize;
  if (shared_bytes > most) error = cudaErrorInvalidValue;
  if (!good_grid || !good_block) error = cudaErrorInvalidConfiguration;
  if (error != cudaSuccess) failed(error);
  return error == cudaSuccess;
}

std::size_t shared_limit(const void* kernel) {
  return allowed_shared_bytes().contains(kernel) ? kSharedBytesOptin : kSharedBytes;
}

}  // namespace specdec::emulation
