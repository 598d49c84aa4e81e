#include "stages/10_beam_search/beam_batch.h"

#include <utility>

#include <fmt/format.h>

#include "common/base/error.h"
#include "kernels/int_size.h"

namespace specdec {

BeamBatch::BeamBatch(LanguageModel& target, BeamDrafter& drafter, const BeamDrafting& drafting,
                     int max_rows, int max_cached)
    : target_(target),
      drafter_(drafter),
      drafting_(drafting),
      max_rows_(max_rows),
      max_cached_(max_cached),
      rounds_(target, drafter, drafting, max_rows) {}

int BeamBatch::width(const BeamRequest& request) const {
  return request.draft_width > 0 ? request.draft_width : drafting_.width;
}

// The most rows of a round.
int BeamBatch::rows(const BeamRequest& request) const {
  return request.beams.width + width(request) * drafting_.spec_length;
}

int BeamBatch::add(const BeamRequest& request) {
  const int w = request.beams.width;
  if (request.prompt.empty()) fail("the prompt has no tokens");
  if (width(request) < w && drafting_.spec_length > 0) {
    fail("{} draft beams are fewer than {} beams", width(request), w);
  }
  if (rows(request) > max_rows_) {
    fail("{} beams and their drafts are {} rows, and a pass has {}", w, rows(request), max_rows_);
  }
  // Beams may have nothing in common but the prompt.
  const std::int64_t most =
      std::ssize(request.prompt) + std::int64_t{w} * request.max_new_tokens + rows(request);
  if (most > max_cached_) {
    fail("{} beams of {} tokens after a prompt of {} may need room for {} tokens, and there is {}",
         w, request.max_new_tokens, request.prompt.size(), most, max_cached_);
  }
  waiting_.push_back({.number = added_, .request = request});
  return added_++;
}

// [snippet beam-batch]
void BeamBatch::step() {
  while (!waiting_.empty() && admit()) continue;
  while (admitted_.size() > 1 && !rounds_.has_room(runs())) preempt_youngest();
  const std::vector<BeamRound> rounds = rounds_.round(runs());
  for (std::size_t i = 0; i < rounds.size(); i++) {
    admitted_[i].result.steps += int_size(rounds[i].steps);
    admitted_[i].result.rounds++;
  }
  for (Entry& entry : admitted_) {
    if (entry.run->search.finished()) end(entry);
  }
  std::erase_if(admitted_, [](const Entry& entry) { return entry.run == nullptr; });
}
// [end snippet beam-batch]

// Admits the oldest waiting request. Returns false if there is no room for it yet.
bool BeamBatch::admit() {
  Entry& next = waiting_.front();
  int total = rows(next.request);
  for (const Entry& entry : admitted_) total += rows(entry.request);
  if (total > max_rows_) return false;
  const auto& [prompt, max_new_tokens, eos_ids, beams, draft_width] = next.request;
  try {
    if (next.run == nullptr) {
      next.run =
          std::make_unique<BeamRun>(target_, drafter_, beams, prompt, eos_ids, max_new_tokens);
      next.run->draft_width = draft_width;
    }
    next.run->open();
  } catch (const CacheFull&) {  // no sequence is free
    if (admitted_.empty()) throw;
    return false;
  }
  std::vector<BeamRun*> all = runs();
  all.push_back(next.run.get());
  if (!admitted_.empty() && !rounds_.has_room(all)) {
    next.run->close();
    return false;
  }
  rounds_.prefill(*next.run);
  admitted_.push_back(std::move(next));
  waiting_.pop_front();
  return true;
}

void BeamBatch::preempt_youngest() {
  Entry& youngest = admitted_.back();
  youngest.run->close();
  youngest.result.preemptions++;
  waiting_.push_front(std::move(youngest));
  admitted_.pop_back();
}

void BeamBatch::end(Entry& entry) {
  const auto found = entry.run->search.hypotheses();
  entry.result.hypotheses.assign(found.begin(), found.end());
  results_[entry.number] = std::move(entry.result);
  entry.run.reset();
}

std::vector<BeamRun*> BeamBatch::runs() const {
  std::vector<BeamRun*> runs;
  for (const Entry& entry : admitted_) runs.push_back(entry.run.get());
  return runs;
}

BeamResult BeamBatch::take_result(int request) {
  BeamResult result = std::move(results_.at(request));
  results_.erase(request);
  return result;
}

}  // namespace specdec
