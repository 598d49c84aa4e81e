#include "stages/08_token_trees/lookup_tree_drafter.h"

#include <algorithm>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {

LookupTreeDrafter::Options LookupTreeDrafter::options_for(const DraftShape& shape) {
  const int levels = shape.levels();
  return {.continuations = std::max(1, shape.capacity(levels).nodes / levels), .levels = levels};
}

LookupTreeDrafter::LookupTreeDrafter(const Options& options) : options_(options) {
  SPECDEC_CHECK(options.continuations >= 1 && options.levels >= 1 && options.min_match >= 1 &&
                    options.min_match <= options.max_match,
                "positive options");
  const int most = options.continuations * options.levels;  // if a request's tree has one level
  places_.reserve(most);
  nodes_.reserve(most);
}

Capacity LookupTreeDrafter::capacity(int spec_length) const {
  const int levels = std::min(spec_length, options_.levels);
  const int nodes = options_.continuations * levels;
  return {.levels = levels, .nodes = nodes, .trials = nodes, .width = 0, .verified = nodes};
}

void LookupTreeDrafter::draft(std::span<const DraftRequest> requests) {
  for (const DraftRequest& request : requests) {
    request.drafts->clear();
    const DraftShape* shape = request.sampling.shape;
    const Options of_tree = shape != nullptr ? options_for(*shape) : options_;
    find(request.context, of_tree.continuations);
    grow(request, of_tree.levels);
  }
}

// [snippet find-places]
// Finds the positions after the longest matches, the latest first.
void LookupTreeDrafter::find(std::span<const TokenId> context, int continuations) {
  const auto length = int_size(context);
  const auto match_at = [&](int end) {  // how many tokens before `end` equal the last ones
    int match = 0;
    while (match < options_.max_match && match < end &&
           context[end - 1 - match] == context[length - 1 - match]) {
      match++;
    }
    return match;
  };
  places_.clear();
  int longest = options_.min_match;
  for (int end = length - 1; end > 0; end--) {
    const int match = match_at(end);
    if (match < longest) continue;
    if (match > longest) places_.clear();
    longest = match;
    if (std::ssize(places_) < continuations) places_.push_back(end);
  }
}
// [end snippet find-places]

// Adds level after level, so that the trials after one node are consecutive. Continuations that
// agree share one trial, because a certain token is tried only once.
void LookupTreeDrafter::grow(const DraftRequest& request, int levels) {
  Drafts& tree = *request.drafts;
  nodes_.assign(places_.size(), Drafts::kRoot);
  int first = Drafts::kRoot;
  for (int depth = 0; depth < std::min(request.spec_length, levels); depth++) {
    const int end = tree.size();
    for (int parent = first; parent < (depth == 0 ? 0 : end); parent++) {
      for (std::size_t i = 0; i < places_.size(); i++) {
        const auto from = static_cast<std::size_t>(places_[i] + depth);
        if (nodes_[i] != parent || from >= request.context.size()) continue;
        const TokenId token = request.context[from];
        const int known = tree.child(parent, token);
        nodes_[i] =
            known != Drafts::kRoot ? known : add_trial(tree, parent, token, Drafts::kCertain, 1);
      }
    }
    first = end;
  }
}

}  // namespace specdec
