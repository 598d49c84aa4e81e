#pragma once
#include <cstdint>

#include "kernels/cuda/runtime.h"
#include "kernels/sampling.h"

// What the host asks of the kernels that sample, packed into one upload. All pointers are device
// memory. V: the vocabulary's size, of every distribution.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// How a row of logits becomes a distribution: RowSampling of kernels/sampling.h.
struct RowTask {
  const float* logits;  // [width]
  int width;            // at most V; tokens from here on have probability zero
  int top_k;
  double temperature, top_p, repetition_penalty;
  const std::int32_t* history;  // [history_size]
  int history_size;
  double* probs;                       // [V]
  const std::int32_t* path = nullptr;  // [path_size] tokens of a tree, which count as history, too
  int path_size = 0;
};

// How a token is drawn from it.
struct DrawTask {
  DrawBy by;
  int position;
  std::uint64_t seed;
  std::uint32_t purpose;
};

struct DraftTask {
  const double* probs;  // [V], or null where the draft was certain
  std::int32_t token;
};

struct RoundTask {
  int first_row, first_draft;  // of this round among all
  int drafts;                  // the round has a row more than drafts
  int position;                // of the first draft
  VerificationRule rule;
  double lenience;
  std::uint64_t seed;
};

// Writes the distribution of each row, and draws a token from it: -1 where there is none.
// scores: working memory, [rows, V]; tokens: [rows].
void choose_tokens(const RowTask* rows, const DrawTask* draws, int row_count, int vocab_size,
                   double* scores, std::int32_t* tokens, cudaStream_t stream);

// Writes the distribution of each row, and whether it has one: valid, [rows].
// scores: working memory, [rows, V].
void make_distributions(const RowTask* rows, int row_count, int vocab_size, double* scores,
                        int* valid, cudaStream_t stream);

// Judges the drafts of each round by the distributions of its rows. verdicts: [rounds];
// acceptance_probs: one a draft.
void judge_rounds(const RoundTask* rounds, int round_count, const RowTask* rows, const int* valid,
                  const DraftTask* drafts, int vocab_size, Verdict* verdicts,
                  double* acceptance_probs, cudaStream_t stream);

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
