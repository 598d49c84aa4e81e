#include <algorithm>
#include <memory>

#include "kernels/cpu/require.h"
#include "kernels/cuda/sampling/cuda_sampler.h"
#include "kernels/cuda/sampling/tree_tasks.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

using cpu::require;

constexpr std::size_t kAlignment = CudaSampler::kAlignment;

std::size_t size_of(int count) { return static_cast<std::size_t>(count); }

std::size_t matrix_size(const SamplerRoom& room) {
  return size_of(room.rows) * size_of(room.vocab_size);
}

// The most that a call uploads: the ids are the histories and, after them, the drafts.
std::size_t task_bytes(const SamplerRoom& room) {
  const std::size_t ids = size_of(room.history) + size_of(room.rows);
  return size_of(room.rows) * (sizeof(RowTask) + std::max(sizeof(DrawTask), sizeof(DraftTask))) +
         size_of(room.rounds) * (sizeof(RoundTask) + kAlignment) + ids * sizeof(std::int32_t) +
         size_of(room.rows) * kAlignment + tree_task_bytes(room);
}

std::size_t result_bytes(const SamplerRoom& room) {
  return size_of(room.rounds) * sizeof(Verdict) + size_of(room.rows) * sizeof(double) + kAlignment +
         tree_result_bytes(room);
}

void require_drafts(std::span<const DraftedRound> rounds, std::size_t drafted, int vocab_size) {
  std::size_t count = 0;
  for (const DraftedRound& round : rounds) {
    count += round.drafts.size();
    require(size_of(round.logits.rows) == round.drafts.size() + 1,
            "a row of logits for each draft and for the bonus");
    require(round.draft_probs.size() == round.drafts.size(), "a distribution or null a draft");
    for (const std::int32_t token : round.drafts) {
      require(token >= 0 && token < vocab_size, "drafts of the vocabulary");
    }
  }
  require(count == drafted, "an acceptance probability for each draft");
}

}  // namespace

CudaSampler::CudaSampler(Backend& backend, const SamplerRoom& room, cudaStream_t stream,
                         GraphQueue& queue)
    : backend_(backend),
      room_(room),
      stream_(stream),
      queue_(queue),
      user_(queue.new_user()),
      scores_(backend, matrix_size(room)),
      probs_(backend, matrix_size(room)),
      valid_(backend, size_of(room.rows)),
      tasks_(backend, task_bytes(room)),
      results_(backend, result_bytes(room)) {
  path_.reserve(size_of(room.levels));
}

double* CudaSampler::own_probs(int row) const {
  return probs_.data() + size_of(row) * size_of(room_.vocab_size);
}

RowTask CudaSampler::row_task(ConstDeviceRows logits, int row, const RowSampling& sampling,
                              const std::int32_t* history, std::size_t size, double* probs) const {
  return {.logits = logits.row(row),
          .width = std::min(logits.width, room_.vocab_size),
          .top_k = sampling.top_k,
          .temperature = sampling.temperature,
          .top_p = sampling.top_p,
          .repetition_penalty = sampling.repetition_penalty,
          .history = history,
          .history_size = history == nullptr ? 0 : static_cast<int>(size),
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
  results_.clear();
  const auto chosen = results_.take<std::int32_t>(tokens.size());
  choose_on_device(logits, choices, chosen.device);
  results_.download(backend_);
  std::copy_n(chosen.host, tokens.size(), tokens.begin());
}

void CudaSampler::choose_on_device(ConstDeviceRows logits, std::span<const Choice> choices,
                                   std::int32_t* tokens) {
  require(logits.rows <= room_.rows, "rows within the sampler's room");
  require(choices.size() == size_of(logits.rows), "a choice for each row");
  if (logits.rows == 0) return;
  tasks_.clear();
  const auto rows = tasks_.take<RowTask>(choices.size());
  const auto draws = tasks_.take<DrawTask>(choices.size());
  for (int r = 0; r < logits.rows; ++r) {
    const Choice& choice = choices[size_of(r)];
    rows.host[r] =
        row_task(logits, r, choice.sampling, send_history(choice.sampling, {}),
                 choice.sampling.history.size(), choice.probs ? choice.probs : own_probs(r));
    draws.host[r] = {choice.by, choice.position, choice.seed, choice.purpose};
  }
  tasks_.upload(backend_);
  const int count = logits.rows;
  queue_.add_few(graph_key(user_, rows.device, draws.device, count, tokens), [=, this] {
    choose_tokens(rows.device, draws.device, count, room_.vocab_size, scores_.data(), tokens,
                  stream_);
  });
}

void CudaSampler::judge(std::span<const DraftedRound> rounds, std::span<Verdict> verdicts,
                        std::span<double> acceptance_probs) {
  require(verdicts.size() == rounds.size(), "a verdict for each round");
  require_drafts(rounds, acceptance_probs.size(), room_.vocab_size);
  const std::size_t row_count = acceptance_probs.size() + rounds.size();
  require(row_count <= size_of(room_.rows) && rounds.size() <= size_of(room_.rounds),
          "rounds within the sampler's room");
  if (rounds.empty()) return;
  tasks_.clear();
  results_.clear();
  const auto rows = tasks_.take<RowTask>(row_count);
  const auto drafts = tasks_.take<DraftTask>(acceptance_probs.size());
  const auto tasks = tasks_.take<RoundTask>(rounds.size());
  int row = 0, draft = 0;
  for (std::size_t r = 0; r < rounds.size(); ++r) {
    const DraftedRound& round = rounds[r];
    tasks.host[r] = {
        row, draft, round.logits.rows - 1, round.position, round.rule, round.lenience, round.seed};
    const std::int32_t* history = send_history(round.sampling, round.drafts);
    for (int i = 0; i < round.logits.rows; ++i, ++row) {
      rows.host[row] = row_task(round.logits, i, round.sampling, history,
                                round.sampling.history.size() + size_of(i), own_probs(row));
    }
    for (std::size_t i = 0; i < round.drafts.size(); ++i) {
      drafts.host[draft++] = {round.draft_probs[i], round.drafts[i]};
    }
  }
  tasks_.upload(backend_);

  const auto verdict = results_.take<Verdict>(rounds.size());
  const auto acceptance_prob = results_.take<double>(acceptance_probs.size());
  const int round_count = static_cast<int>(rounds.size());
  queue_.add_few(graph_key(user_, rows.device, row, tasks.device, round_count, drafts.device,
                           verdict.device, acceptance_prob.device),
                 [=, this] {
                   make_distributions(rows.device, row, room_.vocab_size, scores_.data(),
                                      valid_.data(), stream_);
                   judge_rounds(tasks.device, round_count, rows.device, valid_.data(),
                                drafts.device, room_.vocab_size, verdict.device,
                                acceptance_prob.device, stream_);
                 });
  results_.download(backend_);
  std::copy_n(verdict.host, verdicts.size(), verdicts.begin());
  std::copy_n(acceptance_prob.host, acceptance_probs.size(), acceptance_probs.begin());
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
