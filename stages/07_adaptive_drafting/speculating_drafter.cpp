#include "stages/07_adaptive_drafting/speculating_drafter.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/argmax.h"
#include "common/base/check.h"
#include "kernels/int_size.h"
#include "stages/05_rejection_sampling/acceptance.h"
#include "stages/07_adaptive_drafting/raised_draws.h"

namespace specdec {

SpeculatingDrafter::SpeculatingDrafter(LanguageModel& model, std::shared_ptr<Drafter> inner,
                                       int spec_length, int max_context, int vocab_size)
    : model_(model),
      inner_(std::move(inner)),
      spec_length_(spec_length),
      inner_drafts_(spec_length, vocab_size),
      logits_(model, spec_length + 1),
      host_logits_(model.vocab_size()),
      residual_(vocab_size),
      scratch_(model.vocab_size()) {
  SPECDEC_CHECK(spec_length >= 1, "at least one inner draft, not {}", spec_length);
  text_.reserve(max_context);
  verified_.reserve(max_context);
}

SequenceId SpeculatingDrafter::create() { return pairs_.create(model_, *inner_); }

void SpeculatingDrafter::release(SequenceId sequence) { pairs_.release(sequence, model_, *inner_); }

void SpeculatingDrafter::draft(std::span<const DraftRequest> requests) {
  for (const DraftRequest& request : requests) draft(request);
}

void SpeculatingDrafter::prefill(std::span<const Segment> chunks) {
  std::vector<Segment> of_model(chunks.begin(), chunks.end());
  for (Segment& chunk : of_model) chunk.sequence = pairs_[chunk.sequence].first;
  model_.forward(of_model, {});
  pairs_.prefill(chunks, &SequencePairs::Pair::second, *inner_);
}

// [snippet speculating-draft]
void SpeculatingDrafter::draft(const DraftRequest& request) {
  text_.assign(request.context.begin(), request.context.end());
  request.drafts->clear();
  std::optional<RaisedDraws> next_level;
  if (request.sampling.random != nullptr) next_level.emplace(*request.sampling.random, 1);
  RandomSource* random = next_level ? &*next_level : nullptr;
  bool goes_on = true;
  while (goes_on && !is_complete(request)) {
    draft_inside(request, random);
    verify(pairs_[request.sequence].first);
    goes_on = judge(request, random);
    truncate(request.sequence, int_size(text_) - 1);
  }
}
// [end snippet speculating-draft]

// A round emits one token more than it accepts, so it needs at most one inner draft fewer than the
// number of missing drafts.
void SpeculatingDrafter::draft_inside(const DraftRequest& request, RandomSource* random) {
  const int missing = request.spec_length - request.drafts->size();
  const auto start = int_size(text_) - 1;
  const int k = std::clamp(inner_->context_limit() - start, 0, std::min(spec_length_, missing - 1));
  inner_drafts_.clear();
  if (k == 0) return;
  DraftRequest inner = request;
  inner.sequence = pairs_[request.sequence].second;
  inner.context = text_;
  inner.spec_length = k;
  inner.sampling.random = random;
  inner.sampling.gate = nullptr;  // the gate looks at the model's q, not at the inner drafter's
  // The target's likeliest tokens need not be the draft model's.
  inner.sampling.likely = nullptr;
  inner.drafts = &inner_drafts_;
  inner_->draft(std::span(&inner, 1));
}

void SpeculatingDrafter::verify(SequenceId sequence) {
  const auto unseen = uncached(model_, sequence, text_);
  verified_.assign(unseen.begin(), unseen.end());
  verified_.insert(verified_.end(), inner_drafts_.tokens().begin(), inner_drafts_.tokens().end());
  const int rows = inner_drafts_.size() + 1;
  model_.forward(Segment{sequence, verified_, rows}, logits_.rows(0, rows));
  counts_.passes++;
  counts_.drafted += inner_drafts_.size();
}

// [snippet speculating-judge]
// Adds the tokens of an inner round to the drafts: accepted inner drafts, then a correction or the
// bonus, each with the model's own distribution. Returns false if the gate ends the drafts.
bool SpeculatingDrafter::judge(const DraftRequest& request, RandomSource* random) {
  const bool greedy = request.sampling.options.temperature == 0;
  for (int i = 0;; i++) {
    if (!gate_goes_on(request, i)) return false;
    const bool bonus = i == inner_drafts_.size();
    const TokenId token = greedy ? likeliest(request, i) : draw(request, i, random);
    text_.push_back(token);
    counts_.tested += bonus ? 0 : 1;
    counts_.accepted += !bonus && token == inner_drafts_.token(i) ? 1 : 0;
    if (bonus || token != inner_drafts_.token(i) || is_complete(request)) return true;
  }
}
// [end snippet speculating-judge]

// Asks the gate before the round decides on this position.
bool SpeculatingDrafter::gate_goes_on(const DraftRequest& request, int row) {
  const Sampling& sampling = request.sampling;
  if (sampling.gate == nullptr) return true;
  SamplingOptions options = sampling.options;
  if (options.temperature == 0) options = before_argmax(options);
  return sampling.gate->goes_on(make_probs(request, row, options), request.drafts->size());
}

TokenId SpeculatingDrafter::likeliest(const DraftRequest& request, int row) {
  const SamplingOptions& options = request.sampling.options;
  TokenId token = argmax(model_.backend(), logits_.rows(row, 1));
  if (options.repetition_penalty != 1) {
    const auto probs = make_probs(request, row, options);
    token = argmax(probs);
  }
  request.drafts->add_certain(token);
  return token;
}

// [snippet speculating-draw]
// Draws a token from the model's distribution q, with the help of the inner draft, and adds it with
// q, whether it is an accepted inner draft, a correction or a bonus.
TokenId SpeculatingDrafter::draw(const DraftRequest& request, int row, RandomSource* random) {
  // [task 7.6: draw with the help of the inner draft]
  const bool race = request.sampling.race;
  const auto position = int_size(text_);
  const auto probs = make_probs(request, row, request.sampling.options);
  TokenId token;
  if (row == inner_drafts_.size()) {  // the bonus
    token = race ? random->race(probs, position) : random->token(probs, position, Purpose::kTarget);
  } else {
    const AcceptanceRule rule = race ? coupled : rejection;
    token = rule({position, inner_drafts_.token(row), probs, inner_drafts_.probs(row)}, *random,
                 residual_)
                .token;
  }
  request.drafts->add_drawn(token);
  return token;
  // [end task 7.6]
}
// [end snippet speculating-draw]

// Writes the model's q after the text, [V of the drafts], into the drafts' next_probs().
std::span<const double> SpeculatingDrafter::make_probs(const DraftRequest& request, int row,
                                                       const SamplingOptions& options) {
  const std::span<double> probs = request.drafts->next_probs();
  const std::size_t n = std::min(probs.size(), host_logits_.size());  // the rest is padding
  model_.backend().download(logits_.rows(row, 1).row(0), host_logits_.data(), n * sizeof(float));
  probabilities(std::span(host_logits_).first(n), text_, options, scratch_, probs.first(n));
  std::ranges::fill(probs.subspan(n), 0.0);
  return probs;
}

void SpeculatingDrafter::truncate(SequenceId sequence, int length) {
  const auto& [of_model, of_inner] = pairs_[sequence];
  if (length < model_.length(of_model)) model_.truncate(of_model, length);
  inner_->truncate(of_inner, length);
}

int SpeculatingDrafter::length(SequenceId sequence) const {
  return model_.length(pairs_[sequence].first);
}

}  // namespace specdec
