// Judges drafts to the end of the round, like Judge::judge() of stages/05_rejection_sampling.
#include "kernels/cuda/sampling/sampling_accept.h"
#include "kernels/cuda/sampling/sampling_block.h"
#include "kernels/cuda/sampling/sampling_search.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

// 1 / M of non-iterative rejection sampling: the smallest q/p, at most 1. blockIdx.y: the draft.
__global__ void __launch_bounds__(kMaxSamplingThreads, kSamplingBlocks)
    envelope_kernel(Rows rows, Rounds rounds) {
  const DraftTask draft = rounds.drafts[row_number()];
  const RoundTask& round = rounds.tasks[draft.round];
  if (!round.rule.envelope || !has_distribution(rows.states[draft.row])) return;
  const Proposal proposal = proposal_of(rows, rounds, round, draft.row - round.first_row);
  double smallest = 1;
  struct Pair {
    double p, q;
  };
  const auto load = [&](int i) { return Pair{proposal.target_prob(i), proposal.draft_prob(i)}; };
  for_loaded_tokens(own_segment(rows.V), load, [&](int, const Pair& token) {
    if (token.p > 0) smallest = fmin(smallest, token.q / token.p);
  });
  smallest = block_tree_min(smallest);
  // Numbers that are not negative have the order of their bits.
  auto* bits =
      reinterpret_cast<unsigned long long*>(&rounds.draft_states[row_number()].smallest_ratio);
  if (thread() == 0) {
    atomicMin(bits, __double_as_longlong(smallest));
  }
}

// The number of accepted drafts of a round, by one warp with a lane per draft. Valid in all lanes.
__device__ int accepted_drafts(const Rows& rows, const Rounds& rounds, const RoundTask& round) {
  for (int first = 0;; first += kWarp) {
    const int i = first + lane();
    const bool accepted = i < round.drafts && has_distribution(rows.states[round.first_row + i]) &&
                          accepts(round.rule, proposal_of(rows, rounds, round, i));
    const unsigned ends = __ballot_sync(kAllLanes, !accepted);
    if (ends != 0) return first + __ffs(ends) - 1;
  }
}

// Draws the token in place of draft i from the rule's weights, or from the target's own
// distribution if rounding left no weights. All blocks of a round take part; the last one writes
// the verdict.
__device__ void correct(const Rows& rows, const Rounds& rounds, int i, Verdict& verdict) {
  RoundTask& round = rounds.tasks[row_number()];
  const Proposal draft = proposal_of(rows, rounds, round, i);
  const auto weight = [&](int t) { return correction_weight(round.rule.correction, draft, t); };
  double* sums = sums_of(rows);
  const Segment segment = own_segment(rows.V);
  const double sum = segment_sum(segment, weight);
  if (segment.first < rows.V && lane() == 0) sums[segment.index] = sum;
  if (!is_last_block(round.blocks_done, gridDim.x)) return;
  const double u = uniform(draft.seed, draft.position, kDrawResample);
  __shared__ int token;
  if (thread() < kWarp) {
    const int drawn = draw(u, sums, rows.V, weight);
    if (thread() == 0) token = drawn;
  }
  __syncthreads();
  if (token < 0) {
    const auto own = [&](int t) { return draft.target_prob(t); };
    sum_segments(sums, rows.V, own);
    if (thread() < kWarp) {
      const int drawn = draw(u, sums, rows.V, own);
      if (thread() == 0) token = drawn;
    }
  }
  if (thread() == 0) verdict = {i, token};
}

// blockIdx.y: the round. Every block finds the end of the round by itself, so all take the same
// path.
__global__ void __launch_bounds__(kMaxSamplingThreads, kSamplingBlocks)
    judge_kernel(Rows rows, Rounds rounds, Verdict* verdicts) {
  const RoundTask& round = rounds.tasks[row_number()];
  __shared__ int accepted;
  if (thread() < kWarp) {
    const int i = accepted_drafts(rows, rounds, round);
    if (thread() == 0) accepted = i;
  }
  __syncthreads();
  const int i = accepted, row = round.first_row + i;
  const bool valid = has_distribution(rows.states[row]);
  if (valid && i < round.drafts && round.rule.correction != CorrectFrom::kOwnToken) {
    correct(rows, rounds, i, verdicts[row_number()]);
  } else if (blockIdx.x == 0 && thread() == 0) {
    verdicts[row_number()] = {i, valid ? rounds.own_tokens[row] : -1};
  }
}

// blockIdx.y: the draft.
__global__ void __launch_bounds__(kMaxSamplingThreads, kSamplingBlocks)
    overlap_kernel(Rows rows, Rounds rounds, const Verdict* verdicts, double* overlap) {
  const DraftTask draft = rounds.drafts[row_number()];
  const int i = draft.row - rounds.tasks[draft.round].first_row;
  const double* p = rows.tasks[draft.row].probs;
  const bool tested =
      i <= verdicts[draft.round].accepted && has_distribution(rows.states[draft.row]);
  if (!tested || draft.probs == nullptr) {
    if (blockIdx.x == 0 && thread() == 0) overlap[row_number()] = tested ? p[draft.token] : 0;
    return;
  }
  double* sums = sums_of(rows);
  const Segment segment = own_segment(rows.V);
  const double sum = segment_sum(segment, [&](int t) { return fmin(p[t], draft.probs[t]); });
  if (segment.first < rows.V && lane() == 0) sums[segment.index] = sum;
  if (!is_last_block(rounds.draft_states[row_number()].blocks_done, gridDim.x) || thread() >= kWarp)
    return;
  const double total = total_of(sums, rows.V);
  if (thread() == 0) overlap[row_number()] = total;
}

}  // namespace

void judge_rounds(const Rows& rows, const Rounds& rounds, bool envelope, Verdict* verdicts,
                  cudaStream_t stream) {
  if (envelope) {
    launch_segments(envelope_kernel, rows.V, rounds.draft_count, stream, rows, rounds);
  }
  launch_segments(judge_kernel, rows.V, rounds.count, stream, rows, rounds, verdicts);
}

void overlaps(const Rows& rows, const Rounds& rounds, const Verdict* verdicts, double* sums,
              cudaStream_t stream) {
  launch_segments(overlap_kernel, rows.V, rounds.draft_count, stream, rows, rounds, verdicts, sums);
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
