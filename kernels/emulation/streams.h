#pragma once
#include <functional>

#include "kernels/emulation/runtime_calls.h"
#include "kernels/emulation/scheduler.h"

// A stream does its work as late as a GPU may: when the host waits for it. So if a program could
// read a result too early on a GPU, it does so here, every time; and if it frees memory that a copy
// or a kernel still needs, the memory is gone when they run. The default stream does its work
// immediately. As in CUDA, all other streams first finish theirs, except those with
// cudaStreamNonBlocking.
namespace specdec::emulation {

// Adds work to the end of a stream.
void enqueue(cudaStream_t stream, std::function<void()> work);
// Adds a kernel's launch. A programmatic launch directly after a kernel begins as early as
// possible, before that kernel: what it reads before it waits is older than the kernel's writes. If
// it lets the next one begin before it waits, that one begins then, too.
void enqueue_launch(cudaStream_t stream, Launch launch);
// Adds a library's launch, which the host executes.
void enqueue_launch(cudaStream_t stream, std::function<void()> kernel);

// Does all work of all streams.
void finish_all();

// Whether the stream records its work instead of executing it.
bool is_capturing(cudaStream_t stream);
// Whether any stream is capturing; if so, invalidates the capture. For calls that are not allowed
// during a capture.
bool spoils_a_capture();

// Notes the error of a call for cudaGetLastError(), and returns it.
cudaError_t failed(cudaError_t error);

// The counters that traffic() returns.
Traffic& counted();

}  // namespace specdec::emulation
