#include "stages/10_beam_search/beam_drafter.h"

#include <algorithm>
#include <utility>

#include "kernels/int_size.h"

namespace specdec {
namespace {

// The lowest number that is free.
template <typename List, typename IsFree>
int free_number(List& list, const IsFree& is_free) {
  const auto free = std::ranges::find_if(list, is_free);
  const auto number = static_cast<int>(free - list.begin());
  if (free == list.end()) list.emplace_back();
  return number;
}

}  // namespace

ModelBeamDrafter::ModelBeamDrafter(LanguageModel& model, int max_rows, Tell tell)
    : model_(model), logits_(model, max_rows), tell_(std::move(tell)) {}

int ModelBeamDrafter::create() {
  const int request = free_number(growths_, [](const auto& growth) { return !growth; });
  growths_[request] = std::make_unique<Growth>(model_);
  return request;
}

void ModelBeamDrafter::release(int request) { growths_[request].reset(); }

void ModelBeamDrafter::draft(std::span<const BeamsToDraft> requests) {
  for (const BeamsToDraft& request : requests) {
    Growth& growth = *growths_[request.request];
    growth.level.assign(request.leaves.begin(), request.leaves.end());
    growth.scores.assign(request.scores.begin(), request.scores.end());
  }
  for (int depth = 0;; depth++) {
    std::vector<Segment> batch;
    std::vector<const BeamsToDraft*> growing;
    int rows = 0;
    for (const BeamsToDraft& request : requests) {
      if (depth >= request.steps || growths_[request.request]->level.empty()) continue;
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
  Growth& growth = *growths_[request.request];
  std::vector<int> nodes;
  if (depth == 0) nodes = growth.cache.missing(*request.tree);
  nodes.insert(nodes.end(), growth.level.begin(), growth.level.end());
  return growth.cache.feed(*request.tree, nodes, int_size(growth.level));
}

// [snippet draft-level]
// Adds the next level: the draft's best continuations of all beams on this one.
void ModelBeamDrafter::extend(const BeamsToDraft& request, int first_row) {
  Growth& growth = *growths_[request.request];
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
  growths_[request]->cache.keep(tree, became);
}

int EachBeamDrafter::create() {
  const int request = free_number(requests_, [](const auto& r) { return !r.taken; });
  requests_[request].taken = true;
  return request;
}

void EachBeamDrafter::release(int request) {
  for (const Reader& reader : requests_[request].readers) drafter_.release(reader.sequence);
  requests_[request] = {};
}

// The reader whose text has the longest beginning in common with this one, among those that are
// free in this round; a new one if all are taken.
EachBeamDrafter::Reader& EachBeamDrafter::reader_of(Request& request,
                                                    std::span<const TokenId> text) {
  Reader* best = nullptr;
  std::ptrdiff_t longest = -1;
  for (Reader& reader : request.readers) {
    const std::ptrdiff_t common = std::ranges::mismatch(reader.text, text).in2 - text.begin();
    if (reader.reads || common <= longest) continue;
    best = &reader;
    longest = common;
  }
  if (best == nullptr) return request.readers.emplace_back(Reader{drafter_.create()});
  drafter_.truncate(best->sequence, std::min<int>(static_cast<int>(longest), int_size(text) - 1));
  return *best;
}

void EachBeamDrafter::draft(std::span<const BeamsToDraft> requests) {
  for (const BeamsToDraft& request : requests) draft(request);
}

// Drafts for one beam after the other, and then adds the drafts of all beams level by level.
void EachBeamDrafter::draft(const BeamsToDraft& request) {
  if (request.steps == 0) return;
  Request& ours = requests_[request.request];
  for (Reader& reader : ours.readers) reader.reads = false;
  std::vector<Drafts> drafts;
  for (const int leaf : request.leaves) {
    const std::vector<TokenId> text = request.tree->text_to(leaf);
    Reader& reader = reader_of(ours, text);
    reader.reads = true;
    reader.text = text;
    drafts.push_back(drafts_.alike());
    const DraftRequest of_beam{reader.sequence, text, request.steps, {}, &drafts.back()};
    drafter_.draft(std::span(&of_beam, 1));
  }
  std::vector<std::vector<int>> nodes(drafts.size());  // of the request's tree, for each draft
  for (int depth = 0; depth < request.steps; depth++) {
    int added = 0;
    for (std::size_t beam = 0; beam < drafts.size(); beam++) {
      for (int i = int_size(nodes[beam]); i < drafts[beam].size(); i++) {
        const auto& [token, parent, its_depth, prob] = drafts[beam].node(i);
        if (its_depth > depth) break;
        const int above = parent == Drafts::kRoot ? request.leaves[beam] : nodes[beam][parent];
        const bool fits =
            above != TextTree::kGone && added < request.width && !request.search->is_eos(token);
        nodes[beam].push_back(fits ? request.tree->add(above, token) : TextTree::kGone);
        added += fits ? 1 : 0;
      }
    }
  }
}

}  // namespace specdec
