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
// each row and token of the vocabulary, and little else. A call makes one upload, 3 to 10 kernel
// launches (sampling_tasks.h) and one download.
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

  static constexpr std::size_t kAlignment = 8;  // of all pieces of a parcel

 private:
  // Memory on the host and the device that one copy transfers. take() hands it out piece by piece.
  class Parcel {
   public:
    Parcel(DeviceAllocator& allocator, std::size_t bytes)
        : on_host_(bytes), on_device_(allocator, bytes) {}

    // The two sides of a piece.
    template <typename T>
    struct Piece {
      T* host;
      T* device;
    };
    // Zeros the device's side of a new parcel: a download includes the gaps that no kernel writes.
    void upload_zeros(Backend& to) const {
      to.upload(on_host_.data(), on_device_.data(), on_host_.size());
    }
    void clear() { used_ = 0; }
    template <typename T>
    Piece<T> take(std::size_t count) {
      static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kAlignment);
      const std::size_t at = used_;
      used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
      cpu::require(used_ <= on_host_.size(), "a call within the sampler's room");
      return {reinterpret_cast<T*>(on_host_.data() + at),
              reinterpret_cast<T*>(on_device_.data() + at)};
    }
    // Rounds the size up, so that many calls make the same copy although histories grow.
    void upload(Backend& to) const {
      const std::size_t bytes = std::min(std::bit_ceil(used_), on_host_.size());
      to.upload(on_host_.data(), on_device_.data(), bytes);
    }
    void download(Backend& from) { from.download(on_device_.data(), on_host_.data(), used_); }

   private:
    std::vector<std::byte> on_host_;
    DeviceArray<std::byte> on_device_;
    std::size_t used_ = 0;
  };

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
  Rows make_rows(const Parcel::Piece<RowTask>& tasks, int count);
  // Fills in the tasks of a round's rows, from row first_row on.
  void add_round(const DraftedRound& round, int first_row, const Parcel::Piece<RowTask>& rows,
                 const Parcel::Piece<DrawTask>& draws);

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
  Parcel tasks_, results_;
  std::vector<std::int32_t> path_;  // [levels]
};

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
