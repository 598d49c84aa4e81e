#include "stages/10_beam_search/rounds_with_beams.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/base/check.h"
#include "common/base/error.h"
#include "kernels/int_size.h"

namespace specdec {

BeamsOfRequest* beams_of(const RequestState& r) {
  return dynamic_cast<BeamsOfRequest*>(r.extension.get());
}

MostCached most_cached(const BatchRequest& r, const BeamsOfRequest& beams) {
  const int K = r.spec_length, w = beams.options.width, u = beams.draft_width;
  const std::int64_t texts =
      std::ssize(r.generation.prompt) - 1 + std::int64_t{w} * r.generation.max_new_tokens;
  return {texts + std::int64_t{u} * K, K > 0 ? texts + std::int64_t{u} * (K - 1) : 0};
}

RoundsWithBeams::RoundsWithBeams(LanguageModel& target, Drafter& drafter, const Judging& judging,
                                 int max_batch, int spec_length,
                                 std::shared_ptr<BeamDrafter> beam_drafter, int max_rows)
    : BatchedRounds(target, drafter, judging, max_batch, spec_length, max_rows),
      beam_drafter_(std::move(beam_drafter)),
      max_rows_(max_rows) {}

// ---- what a round takes

Capacity RoundsWithBeams::needs(const RequestState& r) const {
  const BeamsOfRequest* beams = beams_of(r);
  if (beams == nullptr) return BatchedRounds::needs(r);
  const int n_beams = beams->run ? int_size(beams->run->leaves) : 1;  // the prompt
  const int K = beams->run ? beams->run->spec_length() : r.request.spec_length;
  Capacity round{.levels = K, .verified = n_beams + beams->draft_width * K - 1};
  if (K > 0) round.nodes = n_beams + beams->draft_width * (K - 1);  // that the draft is fed
  return round;
}

int RoundsWithBeams::most_rows(const RequestState& r) const {
  const BeamsOfRequest* beams = beams_of(r);
  return beams ? beams->most_rows(r.request.spec_length) : BatchedRounds::most_rows(r);
}

MostCached RoundsWithBeams::most_cached(const BatchRequest& r) const {
  const auto extension = r.make_extension ? r.make_extension() : nullptr;
  const auto* beams = dynamic_cast<const BeamsOfRequest*>(extension.get());
  if (beams == nullptr) return BatchedRounds::most_cached(r);
  const int rows = beams->most_rows(r.spec_length);
  if (rows > max_rows_) {
    fail("{} beams and {} x {} drafts are {} rows, and a pass has {}: raise --token-budget",
         beams->options.width, beams->draft_width, r.spec_length, rows, max_rows_);
  }
  return specdec::most_cached(r, *beams);
}

// ---- the phases of a step

void RoundsWithBeams::split(std::span<RequestState* const> batch) {
  texts_.clear();
  searches_.clear();
  for (RequestState* r : batch) (beams_of(*r) ? searches_ : texts_).push_back(r);
}

// The run of a request, with the sequences that the request has now.
BeamRun& RoundsWithBeams::open_run(RequestState& r) {
  BeamsOfRequest& beams = *beams_of(r);
  const GenerationRequest& asked = r.request.generation;
  if (!beams.run) {
    const BeamDrafting drafting{.width = beams.draft_width,
                                .spec_length = r.request.spec_length,
                                .context_limit = r.request.context_limit};
    beams.run.emplace(target_, *beam_drafter_, beams.options, drafting, asked.prompt, asked.eos_ids,
                      asked.max_new_tokens);
  }
  BeamRun& run = *beams.run;
  if (!run.cache.is_open()) run.cache.open(r.sequence);
  if (run.draft_request == BeamRun::kNoRequest && r.draft_sequence != RequestState::kNoSequence) {
    run.draft_request = beam_drafter_->create(r.draft_sequence);
  }
  return run;
}

void RoundsWithBeams::draft(std::span<RequestState* const> batch) {
  split(batch);
  BatchedRounds::draft(texts_);
  std::vector<BeamsToDraft> requests;
  for (RequestState* r : searches_) {
    if (const auto request = BeamRounds::to_draft(open_run(*r))) requests.push_back(*request);
  }
  if (!requests.empty()) beam_drafter_->draft(requests);
}

void RoundsWithBeams::verify(std::span<RequestState* const>, std::span<const Prefill> prefills) {
  pass_.clear();
  for (std::size_t i = 0; i < texts_.size(); i++) {
    if (!texts_[i]->failure) pass_.add_round(*texts_[i], drafts(static_cast<int>(i)));
  }
  for (RequestState* r : searches_) pass_.add(BeamRounds::rows(*beams_of(*r)->run));
  for (const Prefill& prefill : prefills) {
    if (prefill.tokens == 0) continue;
    if (beams_of(*prefill.request) == nullptr) {
      pass_.add_prefill(prefill);
    } else {
      BeamRun& run = open_run(*prefill.request);
      pass_.add(run.cache.feed_next(run.tree, prefill.tokens));
    }
  }
  pass_.run();
}

// Rows of texts come first.
void RoundsWithBeams::judge(std::span<RequestState* const>) {
  BatchedRounds::judge(texts_);
  int row = 0;
  for (const RequestState* r : texts_) row += pass_.rows(*r);
  for (RequestState* r : searches_) {
    judge_beams(*r, row);
    row += pass_.rows(*r);
  }
}

// An Error fails only the request that caused it.
void RoundsWithBeams::judge_beams(RequestState& r, int first_row) {
  BeamsOfRequest& beams = *beams_of(r);
  BeamRun& run = *beams.run;
  try {
    const ConstDeviceRows logits = pass_.logits(0, first_row + pass_.rows(r));
    const BeamRound round = BeamRounds::judge(run, target_.backend(), logits, first_row);
    r.round = as_round(round, run.search.finished());
  } catch (const Error& error) {
    r.round = {};
    r.failure = error.what();
    return;
  }
  if (!run.search.finished()) return;
  const auto found = run.search.hypotheses();
  beams.hypotheses.assign(found.begin(), found.end());
  for (const TokenId token : beams.hypotheses.front().tokens) r.generation.push(token);
}

void RoundsWithBeams::roll_back(RequestState& r) {
  BeamsOfRequest* beams = beams_of(r);
  if (beams == nullptr) return BatchedRounds::roll_back(r);
  const TextTree& tree = beams->run->tree;
  BeamRounds::roll_back(*beams->run);
  r.context.assign(tree.text().begin(), tree.text().end());
  r.context.push_back(tree.node(0).token);
  r.beside = tree.first_leaf();
}

void RoundsWithBeams::undo_draft(std::span<RequestState* const> batch) {
  split(batch);
  BatchedRounds::undo_draft(texts_);
  for (RequestState* r : searches_) {
    if (beams_of(*r)->run) BeamRounds::roll_back(*beams_of(*r)->run);
  }
}

void RoundsWithBeams::forget(RequestState& r) {
  if (BeamsOfRequest* beams = beams_of(r); beams && beams->run) beams->run->close();
}

void RoundsWithBeams::check_tokens(const RequestState& r) const {
  const BeamsOfRequest* beams = beams_of(r);
  if (beams == nullptr) return BatchedRounds::check_tokens(r);
  if (!beams->run) return;
  const TextTree& tree = beams->run->tree;
  SPECDEC_CHECK(std::ranges::equal(tree.text(), std::span(r.context).first(r.context.size() - 1)),
                "the context of request {} to be what its beams begin with", r.id);
  SPECDEC_CHECK(r.beside == tree.first_leaf() && tree.levels() == 0,
                "request {} to have {} tokens cached beside it, and no drafts", r.id, r.beside);
}

std::int64_t RoundsWithBeams::draft_forwards() const {
  return BatchedRounds::draft_forwards() + beam_drafter_->forwards();
}

}  // namespace specdec
