#include "stages/10_beam_search/beam_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"

namespace specdec {

BeamSearch::BeamSearch(const BeamOptions& options, std::span<const TokenId> eos_ids,
                       int max_new_tokens)
    : options_(options), eos_ids_(eos_ids.begin(), eos_ids.end()), max_new_tokens_(max_new_tokens) {
  SPECDEC_CHECK(options.width >= 1 && max_new_tokens >= 1, "a beam and a token, not {} and {}",
                options.width, max_new_tokens);
}

int BeamSearch::candidates(int width) const {
  return std::max(2, 1 + static_cast<int>(eos_ids_.size())) * width;
}

bool BeamSearch::is_eos(TokenId token) const {
  return std::ranges::find(eos_ids_, token) != eos_ids_.end();
}

std::vector<Continuation> BeamSearch::running(std::span<const Continuation> candidates,
                                              int width) const {
  std::vector<Continuation> running;
  for (const Continuation& next : candidates) {
    if (std::ssize(running) == width) break;
    if (!is_eos(next.token)) running.push_back(next);
  }
  return running;
}

// [snippet beam-step]
std::vector<Continuation> BeamSearch::step(std::span<const Continuation> candidates,
                                           const TokensOf& tokens_of) {
  SPECDEC_CHECK(!finished_, "a search that is not finished");
  // [task 10.1: take a step]
  length_++;
  const bool is_last = length_ == max_new_tokens_;
  const auto first = candidates.first(std::min<std::size_t>(candidates.size(), options_.width));
  for (const Continuation& next : first) {
    if (!is_last && !is_eos(next.token)) continue;
    const double score = next.score / std::pow(length_, options_.length_penalty);
    add({tokens_of(next), next.score, score});
  }
  if (std::ssize(hypotheses_) > options_.width) hypotheses_.resize(options_.width);

  std::vector<Continuation> running;
  if (!is_last) running = this->running(candidates, options_.width);
  finished_ = running.empty() || !can_improve(running.front().score);
  return running;
  // [end task 10.1]
}
// [end snippet beam-step]

// Adds it after those that are as good.
void BeamSearch::add(Hypothesis hypothesis) {
  const auto worse = std::ranges::find_if(
      hypotheses_, [&](const Hypothesis& h) { return h.score < hypothesis.score; });
  hypotheses_.insert(worse, std::move(hypothesis));
}

// [snippet stop-test]
// Whether a beam may still become a hypothesis. best_running: the score of the best beam.
bool BeamSearch::can_improve(double best_running) const {
  if (std::ssize(hypotheses_) < options_.width) return true;
  if (options_.early_stopping == EarlyStopping::kTrue) return false;
  const bool longest =
      options_.early_stopping == EarlyStopping::kNever && options_.length_penalty > 0;
  const int length = longest ? max_new_tokens_ : length_;
  return best_running / std::pow(length, options_.length_penalty) > hypotheses_.back().score;
}
// [end snippet stop-test]

}  // namespace specdec
