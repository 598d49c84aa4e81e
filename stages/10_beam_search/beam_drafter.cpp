#include "stages/10_beam_search/beam_drafter.h"

#include <utility>

#include "kernels/int_size.h"

namespace specdec {

ModelBeamDrafter::ModelBeamDrafter(LanguageModel& model, int max_rows, Tell tell)
    : model_(model), logits_(model, max_rows), tell_(std::move(tell)) {}

int ModelBeamDrafter::create() {
  growths_.try_emplace(created_, model_).first->second.cache.open();
  return created_++;
}

int ModelBeamDrafter::create(SequenceId sequence) {
  growths_.try_emplace(created_, model_).first->second.cache.open(sequence);
  return created_++;
}

void ModelBeamDrafter::release(int request) { growths_.erase(request); }

void ModelBeamDrafter::draft(std::span<const BeamsToDraft> requests) {
  for (const BeamsToDraft& request : requests) {
    Growth& growth = growths_.at(request.request);
    growth.level.assign(request.leaves.begin(), request.leaves.end());
    growth.scores.assign(request.scores.begin(), request.scores.end());
  }
  for (int depth = 0;; depth++) {
    std::vector<Segment> batch;
    std::vector<const BeamsToDraft*> growing;
    int rows = 0;
    for (const BeamsToDraft& request : requests) {
      if (depth >= request.steps || growths_.at(request.request).level.empty()) continue;
      batch.push_back(segment(request, depth));
      growing.push_back(&request);
      rows += batch.back().logits_rows;
    }
    if (batch.empty()) return;
    model_.forward(batch, logits_.rows(0, rows));
    forwards_++;
    int row = 0;
    for (std::size_t i = 0; i < batch.size(); i++) {
      extend(*growing[i], row);
      row += batch[i].logits_rows;
    }
  }
}

// What the next pass is fed: the level, and before the first one what the model has not seen.
Segment ModelBeamDrafter::segment(const BeamsToDraft& request, int depth) {
  Growth& growth = growths_.at(request.request);
  std::vector<int> nodes;
  if (depth == 0) nodes = growth.cache.missing(*request.tree);
  nodes.insert(nodes.end(), growth.level.begin(), growth.level.end());
  return growth.cache.feed(*request.tree, nodes, int_size(growth.level));
}

// [snippet draft-level]
// Adds the next level: the draft's best continuations of all beams on this one.
void ModelBeamDrafter::extend(const BeamsToDraft& request, int first_row) {
  Growth& growth = growths_.at(request.request);
  // [task 10.4: draft a level]
  std::vector<BeamRow> beams;
  for (const double score : growth.scores) beams.push_back({first_row + int_size(beams), score});
  const std::vector<int> level = std::exchange(growth.level, {});
  growth.scores.clear();
  std::vector<Continuation> best;
  try {
    best = best_continuations(model_.backend(), logits_.rows(0, first_row + int_size(beams)), beams,
                              request.search->candidates(request.width));
  } catch (const BadLogits& damage) {
    if (tell_) tell_(damage);
    return;
  }
  for (const auto& [beam, token, score] : request.search->running(best, request.width)) {
    growth.level.push_back(request.tree->add(level[beam], token));
    growth.scores.push_back(score);
  }
  // [end task 10.4]
}
// [end snippet draft-level]

void ModelBeamDrafter::keep(int request, const TextTree& tree, std::span<const int> became) {
  growths_.at(request).cache.keep(tree, became);
}

}  // namespace specdec
