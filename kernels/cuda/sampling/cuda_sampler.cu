#include <algorithm>
#include <limits>
#include <memory>

#include "kernels/cpu/require.h"
#include "kernels/cuda/sampling/cuda_sampler.h"
#include "kernels/cuda/sampling/sampling_philox.h"
#include "kernels/cuda/sampling/tree_tasks.h"
#include "kernels/int_size.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

using cpu::require;

constexpr std::size_t kAlignment = CudaSampler::kAlignment;

std::size_t matrix_size(const SamplerRoom& room) {
  return std::ptrdiff_t{room.rows} * room.vocab_size;
}

std::size_t segment_count(const SamplerRoom& room) {
  return std::ptrdiff_t{room.rows} * segments_of(room.vocab_size);
}

// The most that a call uploads. The ids are the histories and, after them, the drafts.
std::size_t task_bytes(const SamplerRoom& room) {
  const std::size_t ids = std::ptrdiff_t{room.history} + room.rows;
  constexpr std::size_t kOfRow = sizeof(RowTask) + sizeof(RowState) + sizeof(DrawTask) +
                                 sizeof(DraftTask) + sizeof(DraftState) + 6 * kAlignment;
  return room.rows * kOfRow + room.rounds * (sizeof(RoundTask) + kAlignment) +
         ids * sizeof(std::int32_t) + tree_task_bytes(room);
}

std::size_t result_bytes(const SamplerRoom& room) {
  return room.rounds * sizeof(Verdict) + room.rows * sizeof(double) + kAlignment +
         tree_result_bytes(room);
}

// Checks the drafts of all rounds and returns their number.
int require_drafts(std::span<const DraftedRound> rounds, std::span<const double> acceptance_probs,
                   int vocab_size) {
  int count = 0;
  for (const DraftedRound& round : rounds) {
    count += int_size(round.drafts);
    require(round.logits.rows == int_size(round.drafts) + 1,
            "a row of logits for each draft and for the bonus");
    require(round.draft_probs.size() == round.drafts.size(), "a distribution or null per draft");
    for (const std::int32_t token : round.drafts) {
      require(token >= 0 && token < vocab_size, "drafts of the vocabulary");
    }
  }
  require(acceptance_probs.empty() || int_size(acceptance_probs) == count,
          "an acceptance probability for each draft, or for none");
  return count;
}

}  // namespace

CudaSampler::CudaSampler(Backend& backend, const SamplerRoom& room, cudaStream_t stream,
                         GraphQueue& queue)
    : backend_(backend),
      room_(room),
      stream_(stream),
      queue_(queue),
      user_(queue.new_user()),
      probs_(backend, matrix_size(room)),
      scores_(backend, matrix_size(room)),
      candidates_(backend, matrix_size(room)),
      sums_(backend, segment_count(room)),
      ids_(backend, segment_count(room)),
      bins_(backend, std::ptrdiff_t{room.rows} * kBins),
      own_tokens_(backend, room.rows),
      task_bytes_(task_bytes(room)),
      results_on_host_(result_bytes(room)),
      results_on_device_(backend, results_on_host_.size()) {
  path_.reserve(room.levels);
  require(room.vocab_size < 1 << 20, "a vocabulary of less than 2^20 tokens");
  const std::vector<unsigned long long> zeros(bins_.size(), 0);
  backend.upload(zeros.data(), bins_.data(), zeros.size() * sizeof zeros[0]);
  // A download includes the gaps that no kernel writes.
  backend.upload(results_on_host_.data(), results_on_device_.data(), results_on_host_.size());
  begin_tasks();  // so that no call needs more memory
}

double* CudaSampler::own_probs(int row) const {
  return probs_.data() + std::ptrdiff_t{row} * room_.vocab_size;
}

RowTask CudaSampler::row_task(ConstDeviceRows logits, int row, const RowSampling& sampling,
                              const std::int32_t* history, int size, double* probs) const {
  return {.logits = logits.row(row),
          .width = std::min(logits.width, room_.vocab_size),
          .top_k = sampling.top_k,
          .scale = sampling.temperature == 0
                       ? 0
                       : std::min(1 / sampling.temperature, std::numeric_limits<double>::max()),
          .top_p = sampling.top_p,
          .repetition_penalty = sampling.repetition_penalty,
          .history = history,
          .history_size = history == nullptr ? 0 : size,
          .probs = probs};
}

const std::int32_t* CudaSampler::send_history(const RowSampling& sampling,
                                              std::span<const std::int32_t> drafts) {
  if (sampling.repetition_penalty == 1) return nullptr;
  const auto ids = tasks_.take<std::int32_t>(sampling.history.size() + drafts.size());
  std::ranges::copy(drafts, std::ranges::copy(sampling.history, ids.host).out);
  return ids.device;
}

void CudaSampler::choose(ConstDeviceRows logits, std::span<const Choice> choices,
                         std::span<std::int32_t> tokens) {
  require(tokens.size() == choices.size(), "a token for each choice");
  begin_results();
  const auto chosen = results_.take<std::int32_t>(tokens.size());
  choose_on_device(logits, choices, chosen.device);
  download_results();
  std::copy_n(chosen.host, tokens.size(), tokens.begin());
}

void CudaSampler::choose_on_device(ConstDeviceRows logits, std::span<const Choice> choices,
                                   std::int32_t* tokens) {
  require(logits.rows <= room_.rows, "rows within the sampler's room");
  require(int_size(choices) == logits.rows, "a choice for each row");
  if (logits.rows == 0) return;
  begin_tasks();
  const auto tasks = tasks_.take<RowTask>(choices.size());
  const auto draws = tasks_.take<DrawTask>(choices.size());
  const Rows rows = make_rows(tasks, logits.rows);
  for (int r = 0; r < logits.rows; ++r) {
    const Choice& choice = choices[r];
    tasks.host[r] =
        row_task(logits, r, choice.sampling, send_history(choice.sampling, {}),
                 int_size(choice.sampling.history), choice.probs ? choice.probs : own_probs(r));
    draws.host[r] = {true, choice.by, choice.position, choice.seed, choice.purpose};
  }
  send_tasks();
  const Filters filters = filters_of(std::span(tasks.host, choices.size()));
  queue_.add_few(
      graph_key(user_, rows.tasks, rows.states, draws.device, rows.count, tokens, filters.key()),
      [=, this] { make_distributions(rows, filters, draws.device, tokens, stream_); });
}

Rows CudaSampler::make_rows(const Pieces::Piece<RowTask>& tasks, int count) {
  const auto states = tasks_.take<RowState>(count);
  std::fill_n(states.host, count, RowState{});
  return {tasks.device,
          states.device,
          count,
          room_.vocab_size,
          {scores_.data(), candidates_.data(), sums_.data(), ids_.data(), bins_.data()}};
}

void CudaSampler::add_round(const DraftedRound& round, int first_row,
                            const Pieces::Piece<RowTask>& rows,
                            const Pieces::Piece<DrawTask>& draws) {
  const std::int32_t* history = send_history(round.sampling, round.drafts);
  // The target's own tokens: the bonus, and those that some rules compare each draft with.
  const bool always = round.rule.accept == AcceptWhen::kOwnTokenMatches ||
                      round.rule.accept == AcceptWhen::kNearOwnToken ||
                      round.rule.correction == CorrectFrom::kOwnToken;
  for (int i = 0; i < round.logits.rows; ++i) {
    const int row = first_row + i;
    rows.host[row] = row_task(round.logits, i, round.sampling, history,
                              int_size(round.sampling.history) + i, own_probs(row));
    draws.host[row] = {always || i + 1 == round.logits.rows, round.rule.own_token,
                       round.position + i, round.seed, kDrawTarget};
  }
}

void CudaSampler::judge(std::span<const DraftedRound> rounds, std::span<Verdict> verdicts,
                        std::span<double> acceptance_probs) {
  require(verdicts.size() == rounds.size(), "a verdict for each round");
  const int draft_count = require_drafts(rounds, acceptance_probs, room_.vocab_size);
  const int round_count = int_size(rounds), row_count = draft_count + round_count;
  require(row_count <= room_.rows && round_count <= room_.rounds,
          "rounds within the sampler's room");
  if (rounds.empty()) return;
  begin_tasks();
  begin_results();
  const auto row_tasks = tasks_.take<RowTask>(row_count);
  const auto draws = tasks_.take<DrawTask>(row_count);
  const auto drafts = tasks_.take<DraftTask>(draft_count);
  const auto draft_states = tasks_.take<DraftState>(draft_count);
  const auto tasks = tasks_.take<RoundTask>(rounds.size());
  const Rows rows = make_rows(row_tasks, row_count);
  std::fill_n(draft_states.host, draft_count, DraftState{1, 0});
  int row = 0, draft = 0;
  bool envelope = false;
  for (int r = 0; r < round_count; ++r) {
    const DraftedRound& round = rounds[r];
    const int drafted = int_size(round.drafts);
    tasks.host[r] = {row,        draft,          drafted,    round.position,
                     round.rule, round.lenience, round.seed, 0};
    envelope |= round.rule.envelope;
    add_round(round, row, row_tasks, draws);
    for (int i = 0; i < drafted; ++i) {
      drafts.host[draft++] = {round.draft_probs[i], round.drafts[i], r, row + i};
    }
    row += round.logits.rows;
  }
  send_tasks();

  const auto verdict = results_.take<Verdict>(rounds.size());
  const auto acceptance_prob = results_.take<double>(acceptance_probs.size());
  const Rounds judged{tasks.device,       drafts.device, draft_states.device,
                      own_tokens_.data(), round_count,   draft_count};
  const Filters filters = filters_of(std::span(row_tasks.host, row_count));
  const bool wants_overlaps = !acceptance_probs.empty();
  queue_.add_few(graph_key(user_, rows.tasks, rows.states, rows.count, judged.tasks, judged.count,
                           verdict.device, filters.key(), envelope, wants_overlaps),
                 [=, this] {
                   make_distributions(rows, filters, draws.device, own_tokens_.data(), stream_);
                   judge_rounds(rows, judged, envelope, verdict.device, stream_);
                   if (wants_overlaps) {
                     overlaps(rows, judged, verdict.device, acceptance_prob.device, stream_);
                   }
                 });
  download_results();
  std::copy_n(verdict.host, verdicts.size(), verdicts.begin());
  std::copy_n(acceptance_prob.host, acceptance_probs.size(), acceptance_probs.begin());
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
