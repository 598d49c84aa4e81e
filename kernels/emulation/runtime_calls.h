#pragma once
#include <cstddef>

#include "kernels/emulation/vector_types.h"

// The CUDA runtime's calls that our host code makes. Device memory is host memory, a stream does
// its work as late as a GPU may (streams.h), and the calls return the errors that CUDA returns.
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
};
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
// The error of the last launch that was refused, once.
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();

// ---- memory

// Under AddressSanitizer a block ends exactly where it ends. Fresh memory is full of NaNs.
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
// `rows` times `width` bytes, from one row to the next as many as the pitch says.
cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t rows, cudaMemcpyKind kind);
cudaError_t cudaMemset(void* to, int value, std::size_t bytes);
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream = nullptr);
// Memory of the host that a GPU can read.
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
// By the host's clock. Not recorded: cudaErrorInvalidResourceHandle.
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
// From here to the end of the capture the stream writes down what it is given and does not do it.
// Meanwhile the calls that wait for it or take memory are refused, and what touches the default
// stream spoils the capture. Not of the default stream.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long flags);
// count: of its nodes. nodes: null, as we have no use for them.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, std::nullptr_t nodes, std::size_t* count);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);

// ---- the device

struct cudaDeviceProp {
  char name[256];
  int major, minor;  // of the compute capability whose limits hold here
  int multiProcessorCount;
  int warpSize;
  int maxThreadsPerBlock;
  std::size_t sharedMemPerBlock;       // without asking for more
  std::size_t sharedMemPerBlockOptin;  // with cudaFuncSetAttribute
  std::size_t totalGlobalMem;
};
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
// Allows a kernel's launches up to `value` bytes of dynamic shared memory; without it, 48 KiB.
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);
template <typename... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute,
                                 int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}

namespace specdec::emulation {

constexpr std::size_t kSharedBytes = 48 << 10, kSharedBytesOptin = 227 << 10;

// Whether a GPU of compute capability 9.0 would run it; if not, cudaGetLastError() says why.
bool can_launch(const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes);

// What the program has asked of the device so far.
struct Traffic {
  std::size_t allocations = 0;
  std::size_t launches = 0;        // of kernels, one by one
  std::size_t graph_launches = 0;  // of graphs, however many kernels each has
  std::size_t graphs = 0;          // that are ready to be launched
  std::size_t graph_nodes = 0;     // of them all: kernels and copies
  std::size_t early = 0;           // kernels that began before the one in front had ended
  std::size_t uploads = 0, downloads = 0, device_copies = 0;  // one by one
  std::size_t bytes_to_host = 0, bytes_to_device = 0;         // that were copied, by graphs as well
  std::size_t waits = 0;  // calls that return when the device has done what it was given

  Traffic operator-(const Traffic& earlier) const;
};
const Traffic& traffic();

}  // namespace specdec::emulation
