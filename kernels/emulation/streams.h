#pragma once
#include <functional>

#include "kernels/emulation/runtime_calls.h"
#include "kernels/emulation/scheduler.h"

// A stream does its work as late as a GPU may: when the host waits for it. So what a program would
// read too early on a GPU it reads too early here, every time, and what it takes away from under a
// copy or a kernel is gone when they run. The default stream does its work at once; before that, as
// in CUDA, all streams but those of cudaStreamNonBlocking finish theirs.
namespace specdec::emulation {

// Gives a stream something to do after all that it was given before.
void enqueue(cudaStream_t stream, std::function<void()> work);
// The same for a kernel's launch. A programmatic one that directly follows a kernel begins as early
// as it may, before that kernel does: what it reads before it waits is what was there before.
void enqueue_launch(cudaStream_t stream, Launch launch);
// Of a library, which the host does.
void enqueue_launch(cudaStream_t stream, std::function<void()> kernel);

// Does what all streams have been given.
void finish_all();

// Whether the stream writes down what it is given.
bool is_capturing(cudaStream_t stream);
// Whether any stream does. What has to ask may not be done then, and spoils the capture.
bool spoils_a_capture();

// What traffic() shows.
Traffic& counted();

}  // namespace specdec::emulation
