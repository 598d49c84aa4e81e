#include "kernels/cuda/sampling/sampling_accept.h"
#include "kernels/cuda/sampling/sampling_distribution.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

// A block a row.
__global__ void __launch_bounds__(kMaxSamplingThreads)
    choose_kernel(const RowTask* rows, const DrawTask* draws, int V, double* scores,
                  std::int32_t* tokens) {
  const auto r = static_cast<std::ptrdiff_t>(blockIdx.x);
  const RowTask row = rows[r];
  const DrawTask task = draws[r];
  int token = -1;
  if (make_distribution(row, V, scores + r * V)) {
    switch (task.by) {
      case DrawBy::kInversion:
        token = draw_token(row.probs, V, task.seed, task.position, task.purpose);
        break;
      case DrawBy::kRace:
        token = race(row.probs, V, task.seed, task.position);
        break;
      case DrawBy::kLargest:
        token = largest(row.probs, V);
        break;
    }
  }
  if (thread() == 0) tokens[r] = token;
}

// A block a row.
__global__ void __launch_bounds__(kMaxSamplingThreads)
    distribution_kernel(const RowTask* rows, int V, double* scores, int* valid) {
  const auto r = static_cast<std::ptrdiff_t>(blockIdx.x);
  const bool made = make_distribution(rows[r], V, scores + r * V);
  if (thread() == 0) valid[r] = made;
}

// A block a round: Judge::judge() of stages/05_rejection_sampling.
__global__ void __launch_bounds__(kMaxSamplingThreads)
    judge_kernel(const RoundTask* rounds, const RowTask* rows, const int* valid,
                 const DraftTask* drafts, int V, Verdict* verdicts, double* acceptance_probs) {
  const RoundTask round = rounds[blockIdx.x];
  for (int d = 0; thread() == 0 && d < round.drafts; ++d)
    acceptance_probs[round.first_draft + d] = 0;
  int i = 0;  // drafts that were accepted
  Decision decision{true, -1};
  while (decision.accepted) {
    const int row = round.first_row + i, position = round.position + i;
    if (valid[row] == 0) {
      decision = {false, -1};
    } else if (i == round.drafts) {
      decision = {false, own_token(round.rule.own_token, rows[row].probs, V, round.seed, position)};
    } else {
      const DraftTask draft = drafts[round.first_draft + i];
      const Proposal proposal{position, draft.token,    rows[row].probs, draft.probs,
                              V,        round.lenience, round.seed};
      const double common = acceptance_prob(proposal);
      if (thread() == 0) acceptance_probs[round.first_draft + i] = common;
      decision = decide(round.rule, proposal);
      if (decision.accepted) ++i;
    }
  }
  if (thread() == 0) verdicts[blockIdx.x] = {i, decision.token};
}

}  // namespace

void choose_tokens(const RowTask* rows, const DrawTask* draws, int row_count, int vocab_size,
                   double* scores, std::int32_t* tokens, cudaStream_t stream) {
  launch(choose_kernel, static_cast<unsigned>(row_count), threads_for(vocab_size), 0, stream, rows,
         draws, vocab_size, scores, tokens);
}

void make_distributions(const RowTask* rows, int row_count, int vocab_size, double* scores,
                        int* valid, cudaStream_t stream) {
  launch(distribution_kernel, static_cast<unsigned>(row_count), threads_for(vocab_size), 0, stream,
         rows, vocab_size, scores, valid);
}

void judge_rounds(const RoundTask* rounds, int round_count, const RowTask* rows, const int* valid,
                  const DraftTask* drafts, int vocab_size, Verdict* verdicts,
                  double* acceptance_probs, cudaStream_t stream) {
  launch(judge_kernel, static_cast<unsigned>(round_count), threads_for(vocab_size), 0, stream,
         rounds, rows, valid, drafts, vocab_size, verdicts, acceptance_probs);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
