#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/graph_queue.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

bool uses_graphs() {
  const char* value = std::getenv("SPECDEC_CUDA_GRAPHS");
  return value == nullptr || std::string_view(value) != "0";
}

namespace {

// Sets a flag during a call.
class Submitting {
 public:
  explicit Submitting(bool& flag) : flag_(flag) { flag_ = true; }
  ~Submitting() { flag_ = false; }
  Submitting(const Submitting&) = delete;
  Submitting& operator=(const Submitting&) = delete;

 private:
  bool& flag_;
};

}  // namespace

void GraphQueue::add(Key key, std::function<void()> operations, bool is_pass) {
  if (!collects_ || submitting_) return operations();
  key.insert(key.begin(), std::ssize(key));  // so that joined keys are a key
  waiting_.push_back({std::move(key), std::move(operations), is_pass});
}

void GraphQueue::add_copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const auto copy = [=, this] { cuda_check(cudaMemcpyAsync(to, from, bytes, kind, stream_)); };
  if (waiting_.empty()) return copy();
  add_few(graph_key(to, from, bytes), copy);
}

void GraphQueue::add_early_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (early_.bytes == 0) early_ = {to, from, 0};
  early_.bytes += bytes;
  if (!collects_) copy_early();
}

void GraphQueue::copy_early() {
  const auto [to, from, bytes] = std::exchange(early_, {});
  if (bytes > 0) cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_));
}

// [snippet graph-run]
void GraphQueue::submit() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  if (submitting_) return;
  copy_early();
  if (waiting_.empty()) return;
  const std::vector<Item> items = std::exchange(waiting_, {});
  const Submitting submitting(submitting_);
  Key all;
  for (const Item& item : items) all.insert(all.end(), item.key.begin(), item.key.end());
  const bool known = items.size() == 1 || graphs_.contains(all);
  run(all, [&] {  // this order is new, but its passes may be known
    for (const Item& item : items) {
      known || !item.is_pass ? item.operations() : run(item.key, item.operations);
    }
  });
}
// [end snippet graph-run]

void GraphQueue::submit_or_fail_later() noexcept {
  try {
    submit();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void GraphQueue::run(const Key& key, const std::function<void()>& operations) {
  const auto [found, is_new] = graphs_.try_emplace(key);
  Recorded& recorded = found->second;
  recorded.last_use = ++uses_;
  if (is_new) {
    make_room(found);
    return operations();
  }
  if (recorded.graph == nullptr) {
    record(recorded, operations);
    make_room(found);
  }
  cuda_check(cudaGraphLaunch(recorded.graph, stream_));
}

// While the stream captures, launches on it are recorded and not executed.
void GraphQueue::record(Recorded& recorded, const std::function<void()>& operations) {
  cudaGraph_t graph = nullptr;
  cuda_check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  try {
    operations();
  } catch (...) {
    cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();  // the capture's, which ended for another reason
    throw;
  }
  cuda_check(cudaStreamEndCapture(stream_, &graph));
  cudaError_t error = cudaGraphGetNodes(graph, nullptr, &recorded.nodes);
  if (error == cudaSuccess) error = cudaGraphInstantiateWithFlags(&recorded.graph, graph, 0);
  cudaGraphDestroy(graph);
  cuda_check(error);
  nodes_ += recorded.nodes;
}

void GraphQueue::forget() {
  for (const auto& [key, recorded] : graphs_) {
    if (recorded.graph != nullptr) cudaGraphExecDestroy(recorded.graph);
  }
  graphs_.clear();
  nodes_ = 0;
}

// Forgets the least recently used graphs, but never `kept`.
void GraphQueue::make_room(Graphs::const_iterator kept) {
  while (graphs_.size() > 1 && (nodes_ > kMostNodes || graphs_.size() > kMostKeys)) {
    auto oldest = graphs_.begin();
    for (auto it = graphs_.begin(); it != graphs_.end(); ++it) {
      if (oldest == kept || it->second.last_use < oldest->second.last_use) oldest = it;
    }
    if (oldest->second.graph != nullptr) cuda_check(cudaGraphExecDestroy(oldest->second.graph));
    nodes_ -= oldest->second.graph != nullptr ? oldest->second.nodes : 0;
    graphs_.erase(oldest);
  }
}

// The graphs point to memory of the engine.
GraphRecorder::~GraphRecorder() {
  queue_.submit_or_fail_later();
  queue_.forget();
}

void GraphRecorder::run(const Shape& shape, std::function<void()> operations) {
  GraphQueue::Key key = {user_};
  key.insert(key.end(), shape.begin(), shape.end());
  queue_.add(std::move(key), std::move(operations));
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
