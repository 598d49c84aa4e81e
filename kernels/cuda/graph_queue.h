#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/runtime.h"
#include "kernels/ops.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// SPECDEC_CUDA_GRAPHS=0: every operation is launched by itself.
bool uses_graphs();

// Collects what is asked for until something must come back, and then launches all of it as one
// CUDA graph: hundreds of kernels and copies in one call. What is asked for a second time is
// recorded, and launched as a graph from then on. The first time has set up what launches need.
class GraphQueue {
 public:
  // What operations depend on, but for the contents of memory.
  using Key = std::vector<std::int64_t>;

  // collects: whether it does; else all that is added is done at once.
  GraphQueue(cudaStream_t stream, bool collects) : stream_(stream), collects_(collects) {}
  ~GraphQueue() { forget(); }
  GraphQueue(const GraphQueue&) = delete;
  GraphQueue& operator=(const GraphQueue&) = delete;

  bool collects() const { return collects_; }

  // For keys: a number that no other user of the queue has had, since addresses are used again.
  std::int64_t new_user() { return ++users_; }

  // Operations, which launch on the stream and take no memory. What they refer to lives until they
  // are submitted.
  void add(Key key, std::function<void()> operations) {
    add(std::move(key), std::move(operations), true);
  }
  // The same for a launch or two, which are not worth a graph of their own.
  void add_few(Key key, std::function<void()> operations) {
    add(std::move(key), std::move(operations), false);
  }
  // A copy that can be part of a graph: of the host's memory only what is pinned. At once where no
  // operation is waiting.
  void add_copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);

  // Launches what was added. Before anything else is asked of the stream.
  void submit();
  // Forgets all graphs, when memory that they point to moves.
  void forget();

 private:
  // A graph takes memory on the device for each of its nodes, kernels and copies. By a guess of
  // 1 KiB a node, 32 MiB at most.
  static constexpr std::size_t kMostNodes = 32 << 10;
  static constexpr std::size_t kMostKeys = 512;

  struct Item {
    Key key;
    std::function<void()> operations;
    bool is_pass;  // worth a graph of its own
  };
  struct Recorded {
    cudaGraphExec_t graph = nullptr;  // null: seen once
    std::size_t nodes = 0;
    std::uint64_t last_use = 0;
  };
  using Graphs = std::map<Key, Recorded>;

  void add(Key key, std::function<void()> operations, bool is_pass);
  void run(const Key& key, const std::function<void()>& operations);
  void record(Recorded& recorded, const std::function<void()>& operations);
  void make_room(Graphs::const_iterator kept);

  cudaStream_t stream_;
  bool collects_;
  bool submitting_ = false;
  std::vector<Item> waiting_;
  Graphs graphs_;
  std::size_t nodes_ = 0;
  std::uint64_t uses_ = 0;
  std::int64_t users_ = 0;
};

// The passes of one engine, in such a queue.
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
  const auto number = []<typename T>(T part) {
    if constexpr (std::is_pointer_v<T>) {
      return static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(part));
    } else {
      return static_cast<std::int64_t>(part);
    }
  };
  return {number(parts)...};
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
