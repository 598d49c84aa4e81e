#pragma once
#include <cstddef>

#include "kernels/emulation/vector_types.h"

// The CUDA runtime calls that our host code makes. Device memory is host memory, a stream does its
// work as late as a GPU may (streams.h), and the calls return the same errors as CUDA.
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureUnmatched = 902,
  cudaErrorInvalidClusterSize = 912,
};
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
// Returns the error of the last call that failed, a launch or any other, and clears it.
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();

// ---- memory

// AddressSanitizer reports any access past a block's last byte. Fresh memory is full of NaNs.
cudaError_t cudaMalloc(void** block, std::size_t bytes);
template <typename T>
cudaError_t cudaMalloc(T** block, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(block), bytes);
}
cudaError_t cudaFree(void* block);
cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes);

struct EmulatedStream;
using cudaStream_t = EmulatedStream*;  // null: the default stream
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault,
};
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream = nullptr);
// Copies `rows` rows of `width` bytes; a pitch is the bytes from one row to the next.
cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t rows, cudaMemcpyKind kind);
cudaError_t cudaMemset(void* to, int value, std::size_t bytes);
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream = nullptr);
// Host memory that a GPU can access (pinned).
cudaError_t cudaMallocHost(void** block, std::size_t bytes);
template <typename T>
cudaError_t cudaMallocHost(T** block, std::size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(block), bytes);
}
cudaError_t cudaFreeHost(void* block);

// ---- streams and events

constexpr unsigned cudaStreamDefault = 0, cudaStreamNonBlocking = 1;
cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaDeviceSynchronize();

struct EmulatedEvent;
using cudaEvent_t = EmulatedEvent*;
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
// By the host's clock. Returns cudaErrorInvalidResourceHandle if an event was not recorded.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to);

// ---- graphs

struct EmulatedGraph;
using cudaGraph_t = EmulatedGraph*;
using cudaGraphExec_t = EmulatedGraph*;
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed,
};
// From here to the end of the capture, the stream records its work and does not execute it.
// Meanwhile, calls that wait for the stream or allocate memory are refused, and any use of the
// default stream invalidates the capture. The default stream itself cannot be captured.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long flags);
// count: the number of nodes. nodes: null, because we do not use them.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, std::nullptr_t nodes, std::size_t* count);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);

// ---- the device

struct cudaDeviceProp {
  char name[256];
  int major, minor;  // the compute capability, which defines the limits
  int multiProcessorCount;
  int warpSize;
  int maxThreadsPerBlock;
  std::size_t sharedMemPerBlock;       // without cudaFuncSetAttribute
  std::size_t sharedMemPerBlockOptin;  // with cudaFuncSetAttribute
  std::size_t totalGlobalMem;
};
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
// Allows a kernel up to `value` bytes of dynamic shared memory; the default is 48 KiB.
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);
template <typename... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute,
                                 int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}

namespace specdec::emulation {

constexpr std::size_t kSharedBytes = 48 << 10, kSharedBytesOptin = 227 << 10;

// Whether a GPU of compute capability 9.0 would accept the launch; if not, sets cudaGetLastError().
// cluster: blocks along x.
bool can_launch(const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
                unsigned cluster = 1);
// The most bytes of static and dynamic shared memory together.
std::size_t shared_limit(const void* kernel);

// Counters of the program's use of the device so far.
struct Traffic {
  std::size_t allocations = 0;
  std::size_t launches = 0;        // of kernels, one by one
  std::size_t graph_launches = 0;  // each counts once, whatever its number of kernels
  std::size_t graphs = 0;          // instantiated now
  std::size_t graph_nodes = 0;     // of all these graphs: kernels and copies
  std::size_t blocks = 0;          // of all kernels that have run
  std::size_t early = 0;           // kernels that began before the previous one had ended
  std::size_t uploads = 0, downloads = 0, device_copies = 0;  // one by one
  std::size_t bytes_to_host = 0, bytes_to_device = 0;         // copied, also by graphs
  std::size_t unwritten_to_host = 0;  // of the bytes to the host, those that nothing had written
  std::size_t waits = 0;              // calls that return when the device has finished its work

  Traffic operator-(const Traffic& earlier) const;
};
const Traffic& traffic();

}  // namespace specdec::emulation
