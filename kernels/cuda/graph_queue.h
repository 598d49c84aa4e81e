#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/runtime.h"
#include "kernels/ops.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// Whether operations are launched as graphs; with SPECDEC_CUDA_GRAPHS=0, each is launched by
// itself.
bool uses_graphs();

// Collects operations until a result must come back, then launches all of them as one CUDA graph:
// hundreds of kernels and copies in one call. It records a graph when the same operations come for
// the second time, and launches the graph from then on. The first time, direct launches set up
// whatever they need, such as memory.
class GraphQueue {
 public:
  // Everything that operations depend on except the contents of memory.
  using Key = std::vector<std::int64_t>;

  // collects: false means that added operations run immediately.
  GraphQueue(cudaStream_t stream, bool collects) : stream_(stream), collects_(collects) {}
  ~GraphQueue() { forget(); }
  GraphQueue(const GraphQueue&) = delete;
  GraphQueue& operator=(const GraphQueue&) = delete;

  bool collects() const { return collects_; }

  // A number for keys that no other user of the queue has had, because addresses may be reused.
  std::int64_t new_user() { return ++users_; }

  // Adds operations, which launch on the stream and allocate nothing. What they refer to lives
  // until they are submitted.
  void add(Key key, std::function<void()> operations) {
    add(std::move(key), std::move(operations), true);
  }
  // The same for one or two launches, which are not worth a graph of their own.
  void add_few(Key key, std::function<void()> operations) {
    add(std::move(key), std::move(operations), false);
  }
  // Adds a copy, which becomes part of a graph, so host memory must be pinned. If no operation is
  // waiting, the copy starts immediately.
  void add_copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
  // Adds a copy to the device that precedes all operations that are waiting. REQUIRES: none of them
  // uses its memory, which follows that of the early copy before it, if that is still waiting.
  void add_early_copy(std::byte* to, const std::byte* from, std::size_t bytes);

  // Launches the added operations. Call it before any other use of the stream.
  void submit();
  // The same for destructors. The next submit() throws what this call could not.
  void submit_or_fail_later() noexcept;
  // Forgets all graphs. Call it before memory that they point to moves.
  void forget();

 private:
  // Graphs take device memory for each of their nodes, kernels and copies. At an estimated 1 KiB
  // per node, this limits them to 32 MiB.
  static constexpr std::size_t kMostNodes = 32 << 10;
  static constexpr std::size_t kMostKeys = 512;

  struct Item {
    Key key;
    std::function<void()> operations;
    bool is_pass;  // worth a graph of its own
  };
  struct EarlyCopy {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::size_t bytes = 0;
  };
  struct Recorded {
    cudaGraphExec_t graph = nullptr;  // null: seen once
    std::size_t nodes = 0;
    std::uint64_t last_use = 0;
  };
  using Graphs = std::map<Key, Recorded>;

  void add(Key key, std::function<void()> operations, bool is_pass);
  void copy_early();
  void run(const Key& key, const std::function<void()>& operations);
  void record(Recorded& recorded, const std::function<void()>& operations);
  void make_room(Graphs::const_iterator kept);

  cudaStream_t stream_;
  bool collects_;
  bool submitting_ = false;
  std::exception_ptr failure_;  // for the next submit()
  std::vector<Item> waiting_;
  EarlyCopy early_;
  Graphs graphs_;
  std::size_t nodes_ = 0;
  std::uint64_t uses_ = 0;
  std::int64_t users_ = 0;
};

// Adds the passes of one engine to a queue.
class GraphRecorder final : public Recorder {
 public:
  // REQUIRES: the queue outlives this object.
  explicit GraphRecorder(GraphQueue& queue) : queue_(queue), user_(queue.new_user()) {}
  ~GraphRecorder() override;
  GraphRecorder(const GraphRecorder&) = delete;
  GraphRecorder& operator=(const GraphRecorder&) = delete;

  void run(const Shape& shape, std::function<void()> operations) override;

 private:
  GraphQueue& queue_;
  std::int64_t user_;
};

// A key of numbers and addresses.
template <typename... Parts>
GraphQueue::Key graph_key(Parts... parts) {
  const auto number = []<typename T>(T part) -> std::int64_t {
    if constexpr (std::is_pointer_v<T>) {
      return reinterpret_cast<std::intptr_t>(part);
    } else {
      return part;
    }
  };
  return {number(parts)...};
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
