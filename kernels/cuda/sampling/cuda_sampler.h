#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/cpu/require.h"
#include "kernels/cuda/graph_queue.h"
#include "kernels/cuda/sampling/sampling_tasks.h"
#include "kernels/ops.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// Sampler (kernels/sampling.h) on the device. Allocates its memory at construction: 16 bytes for
// each row and token of the vocabulary, and little else. A call sends one parcel, and makes 3 to 10
// kernel launches (sampling_tasks.h) and one download.
class CudaSampler final : public Sampler {
 public:
  // Throws std::bad_alloc. The backend outlives the sampler, and owns the stream and its queue.
  CudaSampler(Backend& backend, const SamplerRoom& room, cudaStream_t stream, GraphQueue& queue);

  void choose(ConstDeviceRows logits, std::span<const Choice> choices,
              std::span<std::int32_t> tokens) override;
  void choose_on_device(ConstDeviceRows logits, std::span<const Choice> choices,
                        std::int32_t* tokens) override;
  void judge(std::span<const DraftedRound> rounds, std::span<Verdict> verdicts,
             std::span<double> acceptance_probs) override;
  void branch(ConstDeviceRows logits, std::span<const Branch> branches,
              std::span<BranchToken> tokens) override;
  void judge_trees(std::span<const DraftedTree> trees, std::span<TreeVerdict> verdicts,
                   std::span<TestedPlace> places) override;

  static constexpr std::size_t kAlignment = 8;  // of all pieces

 private:
  // Memory with two sides, which one copy transfers. take() hands it out piece by piece.
  class Pieces {
   public:
    // The two sides of a piece.
    template <typename T>
    struct Piece {
      T* host;
      T* device;
    };
    void begin(Parcel memory, std::size_t bytes) {
      memory_ = memory;
      bytes_ = bytes;
      used_ = 0;
    }
    template <typename T>
    Piece<T> take(std::size_t count) {
      static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kAlignment);
      const std::size_t at = used_;
      used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
      cpu::require(used_ <= bytes_, "a call within the sampler's room");
      return {reinterpret_cast<T*>(memory_.host + at), reinterpret_cast<T*>(memory_.device + at)};
    }
    std::size_t used() const { return used_; }

   private:
    Parcel memory_;
    std::size_t bytes_ = 0, used_ = 0;
  };

  void begin_tasks() { tasks_.begin(backend_.parcel(task_bytes_), task_bytes_); }
  // Rounds the size up, so that many calls make the same copy although histories grow.
  void send_tasks() { backend_.send(std::min(std::bit_ceil(tasks_.used()), task_bytes_)); }
  void begin_results() {
    results_.begin({results_on_host_.data(), results_on_device_.data()}, results_on_host_.size());
  }
  void download_results() {
    backend_.download(results_on_device_.data(), results_on_host_.data(), results_.used());
  }

  double* own_probs(int row) const;
  // A row of logits after a history of `size` tokens.
  RowTask row_task(ConstDeviceRows logits, int row, const RowSampling& sampling,
                   const std::int32_t* history, int size, double* probs) const;
  // Copies the tokens of a penalty to the device: the history, and the drafts after it.
  const std::int32_t* send_history(const RowSampling& sampling,
                                   std::span<const std::int32_t> drafts);
  // Copies the tree's tokens up to a row for a penalty.
  void send_path(std::span<const std::int32_t> path, RowTask& row);
  // The rows, nodes and trials of all trees, on both sides.
  struct TreeLists;
  void send_tree(const DraftedTree& tree, TreeLists& lists);
  // Rows with these tasks and new states. Call it before send_history(), because the sizes of
  // histories change, and memory that a graph points to must not move.
  Rows make_rows(const Pieces::Piece<RowTask>& tasks, int count);
  // Fills in the tasks of a round's rows, from row first_row on.
  void add_round(const DraftedRound& round, int first_row, const Pieces::Piece<RowTask>& rows,
                 const Pieces::Piece<DrawTask>& draws);

  Backend& backend_;
  SamplerRoom room_;
  cudaStream_t stream_;
  GraphQueue& queue_;
  std::int64_t user_;                     // this sampler's number in the queue
  DeviceArray<double> probs_;             // [rows, V]
  DeviceArray<float> scores_;             // [rows, V]
  DeviceArray<std::int32_t> candidates_;  // [rows, V]
  DeviceArray<double> sums_;              // [rows, segments]
  DeviceArray<std::int32_t> ids_;         // [rows, segments]
  DeviceArray<unsigned long long> bins_;  // [rows, kBins]
  DeviceArray<std::int32_t> own_tokens_;  // [rows]
  std::size_t task_bytes_;                // of a call, at most
  std::vector<std::byte> results_on_host_;
  DeviceArray<std::byte> results_on_device_;
  Pieces tasks_, results_;
  std::vector<std::int32_t> path_;  // [levels]
};

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
