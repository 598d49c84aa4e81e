#pragma once
#include <cstdint>
#include <span>

#include "kernels/cuda/runtime.h"
#include "kernels/sampling.h"

// The tasks that the host gives the sampling kernels, in one upload, and the data that kernels pass
// to each other. All pointers are device memory. V: the vocabulary's size, of every distribution.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// How a row of logits becomes a distribution: RowSampling of kernels/sampling.h.
struct RowTask {
  const float* logits;  // [width]
  int width;            // at most V; tokens from `width` on have probability zero
  int top_k;
  double scale;  // 1 / temperature; 0: greedy
  double top_p, repetition_penalty;
  const std::int32_t* history;  // [history_size]
  int history_size;
  double* probs;                       // [V]
  const std::int32_t* path = nullptr;  // [path_size] tokens of a tree, also part of the history
  int path_size = 0;
};

// What the kernels know about a row so far; initially zero.
struct RowState {
  unsigned long long peak;  // the likeliest token's key (argmax_keys.h)
  unsigned long long last;  // the key of the last token that the filters keep
  unsigned long long goal;  // the sum that top-p must reach, in units
  unsigned long long rest;  // the sum that the search must reach within its bin, in units or tokens
  double total;             // of the weights
  int bin, candidates;      // the bin of the filter's last token, and the number of tokens in it
  unsigned blocks_done;
};

// How a token is drawn from a row.
struct DrawTask {
  bool wanted;
  DrawBy by;
  int position;
  std::uint64_t seed;
  std::uint32_t purpose;
};

struct DraftTask {
  const double* probs;  // [V], or null if the draft was certain
  std::int32_t token;
  int round, row;  // its round, and the row of logits that judges it
};

struct DraftState {
  double smallest_ratio;  // the smallest q/p; initially 1
  unsigned blocks_done;
};

struct RoundTask {
  int first_row, first_draft;  // this round's, among those of all rounds
  int drafts;                  // the round has one more row
  int position;                // of the first draft
  VerificationRule rule;
  double lenience;
  std::uint64_t seed;
  unsigned blocks_done;  // initially zero
};

// Working memory that the blocks of a row share.
struct SamplingScratch {
  float* scores;             // [rows, V]
  std::int32_t* candidates;  // [rows, V]
  double* sums;              // [rows, segments]: the sum of each segment, or its largest value
  std::int32_t* ids;         // [rows, segments]: the token with the largest value
  unsigned long long* bins;  // [rows, kBins], zero before and after a search
};
constexpr int kBins = 1024;

// The number of segments of a vocabulary; one warp adds up each.
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

// Writes the distribution of each row, and draws a token from it if `wanted`: -1 if the row has no
// distribution. tokens: [rows]. Launches 3 kernels, 2 more for top-k, 3 more for top-p.
void make_distributions(const Rows& rows, const Filters& filters, const DrawTask* draws,
                        std::int32_t* tokens, cudaStream_t stream);

struct Rounds {
  RoundTask* tasks;                // [count]
  const DraftTask* drafts;         // [draft_count]
  DraftState* draft_states;        // [draft_count]
  const std::int32_t* own_tokens;  // [rows], valid for rows where a rule reads it
  int count, draft_count;
};

// Judges the drafts of each round by the distributions of its rows. verdicts: [rounds]. envelope:
// whether any rule has one. Launches 1 kernel, or 2 with an envelope.
void judge_rounds(const Rows& rows, const Rounds& rounds, bool envelope, Verdict* verdicts,
                  cudaStream_t stream);

// sum min(p, q) for each draft that was tested, 0 for the others. Launches 1 kernel.
void overlaps(const Rows& rows, const Rounds& rounds, const Verdict* verdicts, double* sums,
              cudaStream_t stream);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
