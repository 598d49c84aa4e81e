#pragma once
#include <cstdint>
#include <span>

#include "kernels/cuda/runtime.h"
#include "kernels/sampling.h"

// What the host asks of the kernels that sample, packed into one upload, and what the kernels tell
// one another. All pointers are device memory. V: the vocabulary's size, of every distribution.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// How a row of logits becomes a distribution: RowSampling of kernels/sampling.h.
struct RowTask {
  const float* logits;  // [width]
  int width;            // at most V; tokens from here on have probability zero
  int top_k;
  double scale;  // 1 / temperature; 0: all to the likeliest
  double top_p, repetition_penalty;
  const std::int32_t* history;  // [history_size]
  int history_size;
  double* probs;                       // [V]
  const std::int32_t* path = nullptr;  // [path_size] tokens of a tree, which count as history, too
  int path_size = 0;
};

// What is known of a row so far; zeros at first.
struct RowState {
  unsigned long long peak;  // the likeliest token's key (argmax_keys.h)
  unsigned long long last;  // that of the last token which the filters keep
  unsigned long long goal;  // what top-p has to reach, in units
  unsigned long long rest;  // what the search has to reach within its bin, in units or in tokens
  double total;             // of the weights
  int bin, candidates;      // where the filter's last token is, and how many others are there
  unsigned blocks_done;
};

// How a token is drawn from it.
struct DrawTask {
  bool wanted;
  DrawBy by;
  int position;
  std::uint64_t seed;
  std::uint32_t purpose;
};

struct DraftTask {
  const double* probs;  // [V], or null where the draft was certain
  std::int32_t token;
  int round, row;  // its round, and the row that judges it
};

struct DraftState {
  double smallest_ratio;  // the smallest q/p; 1 at first
  unsigned blocks_done;
};

struct RoundTask {
  int first_row, first_draft;  // of this round among all
  int drafts;                  // the round has a row more than drafts
  int position;                // of the first draft
  VerificationRule rule;
  double lenience;
  std::uint64_t seed;
  unsigned blocks_done;  // zero at first
};

// Working memory of the rows, for the blocks of a row to share.
struct SamplingScratch {
  float* scores;             // [rows, V]
  std::int32_t* candidates;  // [rows, V]
  double* sums;              // [rows, segments]: of each segment, or its largest value
  std::int32_t* ids;         // [rows, segments]: where that is
  unsigned long long* bins;  // [rows, kBins], zeros before and after a search
};
constexpr int kBins = 1024;

// The segments of a vocabulary, each of which a warp adds up.
__host__ __device__ constexpr int segments_of(int vocab_size) {
  return (vocab_size + kSegment - 1) / kSegment;
}

struct Rows {
  const RowTask* tasks;  // [count]
  RowState* states;      // [count]
  int count, V;
  SamplingScratch scratch;
};

// Which filters any of the rows have.
struct Filters {
  bool top_k = false, top_p = false;

  int key() const { return 2 * top_k + top_p; }
};
Filters filters_of(std::span<const RowTask> rows);

// Writes the distribution of each row, and draws a token from it where one is wanted: -1 where
// there is none. tokens: [rows]. Launches 3 kernels, 2 more for top-k, 3 more for top-p.
void make_distributions(const Rows& rows, const Filters& filters, const DrawTask* draws,
                        std::int32_t* tokens, cudaStream_t stream);

struct Rounds {
  RoundTask* tasks;                // [count]
  const DraftTask* drafts;         // [draft_count]
  DraftState* draft_states;        // [draft_count]
  const std::int32_t* own_tokens;  // [rows], of those that a rule looks at
  int count, draft_count;
};

// Judges the drafts of each round by the distributions of its rows. verdicts: [rounds]. envelope:
// whether any rule asks for it. Launches 1 kernel, 2 with an envelope.
void judge_rounds(const Rows& rows, const Rounds& rounds, bool envelope, Verdict* verdicts,
                  cudaStream_t stream);

// sum min(p, q) of each draft that was tested, 0 of the others. Launches 1 kernel.
void overlaps(const Rows& rows, const Rounds& rounds, const Verdict* verdicts, double* sums,
              cudaStream_t stream);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
