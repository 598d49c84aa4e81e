#include "kernels/emulation/streams.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "kernels/emulation/block_memory.h"

using Clock = std::chrono::steady_clock;

// One piece of work of a stream: a kernel's launch, or something else.
struct EmulatedWork {
  std::shared_ptr<const specdec::emulation::Launch> launch;  // null: `other` is the work
  std::function<void()> other;

  // next: the stream's work after this, as far as it is known.
  template <typename Works>
  void operator()(const Works& next) const {
    if (launch == nullptr) return other();
    for (const EmulatedWork& work : next) {
      if (work.launch == nullptr || !work.launch->programmatic) break;
      specdec::emulation::counted().early += specdec::emulation::begin_early(*work.launch, *launch);
      if (!specdec::emulation::lets_next_begin(*work.launch)) break;
    }
    const dim3 grid = launch->grid;
    specdec::emulation::counted().blocks += std::size_t{grid.x} * grid.y * grid.z;
    specdec::emulation::run_grid(*launch);
  }
};

using AllWork = std::vector<EmulatedWork>;

struct EmulatedGraph {
  std::shared_ptr<const AllWork> work;  // shared, because launches may outlive the graph
};

struct EmulatedCapture {
  AllWork work;
  bool spoiled = false;
};

struct EmulatedStream {
  bool blocking = true;                      // the default stream waits for this one
  std::unique_ptr<EmulatedCapture> capture;  // null: the stream executes its work
  std::deque<EmulatedWork> work;
  std::uint64_t given = 0, done = 0;  // pieces of work; the difference is the size of `work`

  void finish_until(std::uint64_t wanted) {
    while (done < std::min(wanted, given)) {
      const EmulatedWork next = std::move(work.front());
      work.pop_front();
      ++done;
      next(work);
    }
  }
  void finish() { finish_until(given); }
};

// An event has occurred when its stream has done `place` pieces of work.
struct EmulatedEvent {
  cudaStream_t stream = nullptr;
  std::uint64_t place = 0;
  std::optional<Clock::time_point> time;
};

namespace specdec::emulation {
namespace {

// Never destroyed: static objects may own streams.
std::set<cudaStream_t>& streams() {
  static auto& all = *new std::set<cudaStream_t>;
  return all;
}

void finish_blocking() {
  for (const cudaStream_t stream : streams()) {
    if (!stream->blocking) continue;
    if (stream->capture) stream->capture->spoiled = true;
    stream->finish();
  }
}

// Runs the event's stream until the event has occurred. A destroyed stream has done all its work.
void finish_until(const EmulatedEvent& event) {
  if (streams().count(event.stream) != 0) event.stream->finish_until(event.place);
}

}  // namespace

Traffic& counted() {
  static Traffic traffic;
  return traffic;
}
const Traffic& traffic() { return counted(); }

Traffic Traffic::operator-(const Traffic& earlier) const {
  return {.allocations = allocations - earlier.allocations,
          .launches = launches - earlier.launches,
          .graph_launches = graph_launches - earlier.graph_launches,
          .graphs = graphs - earlier.graphs,
          .graph_nodes = graph_nodes - earlier.graph_nodes,
          .blocks = blocks - earlier.blocks,
          .early = early - earlier.early,
          .uploads = uploads - earlier.uploads,
          .downloads = downloads - earlier.downloads,
          .device_copies = device_copies - earlier.device_copies,
          .bytes_to_host = bytes_to_host - earlier.bytes_to_host,
          .bytes_to_device = bytes_to_device - earlier.bytes_to_device,
          .unwritten_to_host = unwritten_to_host - earlier.unwritten_to_host,
          .waits = waits - earlier.waits};
}

namespace {

void give(cudaStream_t stream, EmulatedWork work) {
  if (stream == nullptr) {
    finish_blocking();
    return work(AllWork());
  }
  if (stream->capture) return stream->capture->work.push_back(std::move(work));
  stream->work.push_back(std::move(work));
  ++stream->given;
}

void count_launch(cudaStream_t stream) {
  if (!is_capturing(stream)) ++counted().launches;
}

}  // namespace

void enqueue(cudaStream_t stream, std::function<void()> work) {
  give(stream, {nullptr, std::move(work)});
}
void enqueue_launch(cudaStream_t stream, std::function<void()> kernel) {
  count_launch(stream);
  enqueue(stream, std::move(kernel));
}
void enqueue_launch(cudaStream_t stream, Launch launch) {
  count_launch(stream);
  give(stream, {std::make_shared<const Launch>(std::move(launch)), {}});
}

bool is_capturing(cudaStream_t stream) { return stream != nullptr && stream->capture; }

bool spoils_a_capture() {
  bool capturing = false;
  for (const cudaStream_t stream : streams()) {
    if (!stream->capture) continue;
    capturing = stream->capture->spoiled = true;
  }
  return capturing;
}

void finish_all() {
  for (const cudaStream_t stream : streams()) stream->finish();
}

}  // namespace specdec::emulation

using specdec::emulation::counted;
using specdec::emulation::failed;

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (!specdec::emulation::reserve_stacks()) return failed(cudaErrorMemoryAllocation);
  *stream = new EmulatedStream;
  (*stream)->blocking = flags != cudaStreamNonBlocking;
  specdec::emulation::streams().insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (specdec::emulation::streams().count(stream) == 0)
    return failed(cudaErrorInvalidResourceHandle);
  stream->finish();
  specdec::emulation::streams().erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (specdec::emulation::spoils_a_capture()) return failed(cudaErrorStreamCaptureUnsupported);
  ++counted().waits;
  if (stream == nullptr) {
    specdec::emulation::finish_blocking();
  } else {
    stream->finish();
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  if (specdec::emulation::spoils_a_capture()) return failed(cudaErrorStreamCaptureUnsupported);
  ++counted().waits;
  specdec::emulation::finish_all();
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new EmulatedEvent;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return failed(cudaErrorInvalidResourceHandle);
  specdec::emulation::finish_until(*event);  // its stream writes to it
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event == nullptr) return failed(cudaErrorInvalidResourceHandle);
  specdec::emulation::finish_until(*event);
  event->time.reset();
  specdec::emulation::enqueue(stream, [event] { event->time = Clock::now(); });
  event->stream = stream;
  event->place = stream == nullptr ? 0 : stream->given;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (specdec::emulation::spoils_a_capture()) return failed(cudaErrorStreamCaptureUnsupported);
  ++counted().waits;
  specdec::emulation::finish_until(*event);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  specdec::emulation::enqueue(stream, [copy = *event] { specdec::emulation::finish_until(copy); });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (from == nullptr || to == nullptr) return failed(cudaErrorInvalidResourceHandle);
  for (const cudaEvent_t event : {from, to}) {
    if (event->time) continue;
    return failed(event->stream != nullptr ? cudaErrorNotReady : cudaErrorInvalidResourceHandle);
  }
  *milliseconds = std::chrono::duration<float, std::milli>(*to->time - *from->time).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream == nullptr || stream->capture) return failed(cudaErrorStreamCaptureUnsupported);
  stream->capture = std::make_unique<EmulatedCapture>();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (stream == nullptr || !stream->capture) return failed(cudaErrorStreamCaptureUnmatched);
  const auto capture = std::move(stream->capture);
  if (capture->spoiled) return failed(cudaErrorStreamCaptureInvalidated);
  *graph = new EmulatedGraph{std::make_shared<const AllWork>(std::move(capture->work))};
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long) {
  *executable = new EmulatedGraph(*graph);
  ++counted().graphs;
  counted().graph_nodes += graph->work->size();
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, std::nullptr_t, std::size_t* count) {
  *count = graph->work->size();
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  ++counted().graph_launches;
  specdec::emulation::enqueue(stream, [all = executable->work] {
    for (std::size_t i = 0; i < all->size(); ++i) {
      (*all)[i](std::span(*all).subspan(i + 1));
    }
  });
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  --counted().graphs;
  counted().graph_nodes -= executable->work->size();
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
