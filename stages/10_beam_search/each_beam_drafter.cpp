#include "stages/10_beam_search/each_beam_drafter.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/int_size.h"

namespace specdec {
namespace {

struct Ranked {
  double score = 0;
  int beam = 0, draft = 0;
};

// The drafts of all beams that have this depth, the best first; among equals, the better beam's.
std::vector<Ranked> ranked(std::span<const Drafts> drafts, std::span<const double> scores,
                           int depth) {
  std::vector<Ranked> level;
  for (int beam = 0; beam < int_size(drafts); beam++) {
    for (int i = 0; i < drafts[beam].size(); i++) {
      const Drafts::Node& node = drafts[beam].node(i);
      if (node.depth != depth) continue;
      level.push_back({scores[beam] + std::log(node.draft_prob), beam, i});
    }
  }
  std::ranges::stable_sort(level, std::ranges::greater{}, &Ranked::score);
  return level;
}

}  // namespace

int EachBeamDrafter::create() {
  readers_[created_] = {};
  return created_++;
}

void EachBeamDrafter::release(int request) {
  for (const Reader& reader : readers_.at(request)) drafter_.release(reader.sequence);
  readers_.erase(request);
}

// The reader whose text has the longest beginning in common with this one, among those that are
// free in this round; a new one if all are taken.
EachBeamDrafter::Reader& EachBeamDrafter::reader_of(Readers& readers,
                                                    std::span<const TokenId> text) {
  Reader* best = nullptr;
  std::ptrdiff_t longest = -1;
  for (Reader& reader : readers) {
    const std::ptrdiff_t common = std::ranges::mismatch(reader.text, text).in2 - text.begin();
    if (reader.reads || common <= longest) continue;
    best = &reader;
    longest = common;
  }
  if (best == nullptr) return readers.emplace_back(Reader{drafter_.create()});
  drafter_.truncate(best->sequence, std::min(static_cast<int>(longest), int_size(text) - 1));
  return *best;
}

void EachBeamDrafter::draft(std::span<const BeamsToDraft> requests) {
  for (const BeamsToDraft& request : requests) draft(request);
}

void EachBeamDrafter::draft(const BeamsToDraft& request) {
  Readers& readers = readers_.at(request.request);
  for (Reader& reader : readers) reader.reads = false;
  std::vector<Drafts> drafts;  // of each beam
  for (const int leaf : request.leaves) {
    const std::vector<TokenId> text = request.tree->text_to(leaf);
    Reader& reader = reader_of(readers, text);
    reader.reads = true;
    reader.text = text;
    drafts.push_back(drafts_.alike());
    const SequenceId target = show_target(request, leaf);
    const DraftRequest of_beam{reader.sequence, text, request.steps, {}, &drafts.back(), target};
    drafter_.draft(std::span(&of_beam, 1));
  }
  merge(drafts, request);
}

// The target's sequence, of which the drafter sees the rows above a beam.
SequenceId EachBeamDrafter::show_target(const BeamsToDraft& request, int leaf) {
  if (rows_ == nullptr) return 0;
  const TreeCache::Path path = request.target->path_above(*request.tree, leaf);
  rows_->follow(path.sequence, path.text, path.places);
  return path.sequence;
}

// Adds the drafts of all beams to the request's tree, level by level.
void EachBeamDrafter::merge(std::span<const Drafts> drafts, const BeamsToDraft& request) {
  TextTree& tree = *request.tree;
  std::vector<std::vector<int>> nodes;  // of the tree, for each draft of each beam
  for (const Drafts& of_beam : drafts) nodes.emplace_back(of_beam.size(), TextTree::kGone);
  for (int depth = 0; depth < request.steps; depth++) {
    const int before = tree.size();
    for (const auto& [score, beam, i] : ranked(drafts, request.scores, depth)) {
      const auto& [token, parent, its_depth, prob] = drafts[beam].node(i);
      const int above = parent == Drafts::kRoot ? request.leaves[beam] : nodes[beam][parent];
      const bool fits = above != TextTree::kGone && tree.size() - before < request.width &&
                        !request.search->is_eos(token);
      if (fits) nodes[beam][i] = tree.add(above, token);
    }
  }
}

}  // namespace specdec
