#include "stages/08_token_trees/side_by_side_drafter.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "kernels/int_size.h"
#include "stages/08_token_trees/token_tree.h"

namespace specdec {
namespace {

constexpr int kNoNumber = -1;

}  // namespace

Capacity side_by_side(std::span<const Capacity> parts) {
  Capacity all{.width = 0};
  for (const Capacity& part : parts) {
    all.levels = std::max(all.levels, part.levels);
    all.nodes += part.nodes;
    all.trials += part.trials;
    all.probs += part.probs;
    all.width += part.width;
    all.verified += part.verified;
  }
  return all;
}

SideBySideDrafter::SideBySideDrafter(std::vector<std::shared_ptr<Drafter>> drafters, int levels,
                                     int vocab_size, int max_requests) {
  SPECDEC_CHECK(!drafters.empty(), "at least one drafter");
  int draws = 0;
  for (std::shared_ptr<Drafter>& drafter : drafters) {
    const Capacity capacity = drafter->capacity(levels);
    Side& side = sides_.emplace_back();
    side.drafter = std::move(drafter);
    side.first_draw = draws;
    side.drafts = make_drafts(max_requests, capacity, vocab_size);
    side.draws.reserve(max_requests);
    side.requests.reserve(max_requests);
    side.numbers.reserve(capacity.probs);
    draws += side.drafter->capacity(1).trials;
  }
  path_.reserve(levels);
}

SequenceId SideBySideDrafter::create() {
  std::vector<SequenceId> created;
  try {
    for (const Side& side : sides_) created.push_back(side.drafter->create());
  } catch (...) {
    for (std::size_t k = 0; k < created.size(); k++) sides_[k].drafter->release(created[k]);
    throw;
  }
  const bool is_new = free_.empty();
  const SequenceId sequence = is_new ? int_size(contexts_) : free_.back();
  if (is_new) {
    contexts_.emplace_back();
  } else {
    free_.pop_back();
  }
  for (std::size_t k = 0; k < sides_.size(); k++) {
    Side& side = sides_[k];
    side.sequences.resize(contexts_.size());
    side.own_nodes.resize(contexts_.size());
    side.sequences[sequence] = created[k];
    side.own_nodes[sequence].clear();
  }
  return sequence;
}

void SideBySideDrafter::release(SequenceId sequence) {
  for (Side& side : sides_) side.drafter->release(side.sequences[sequence]);
  free_.push_back(sequence);
}

void SideBySideDrafter::prefill(std::span<const Segment> chunks) {
  for (Side& side : sides_) {
    std::vector<Segment> own(chunks.begin(), chunks.end());
    for (Segment& chunk : own) chunk.sequence = side.sequences[chunk.sequence];
    side.drafter->prefill(own);
  }
}

// [snippet side-by-side]
void SideBySideDrafter::draft(std::span<const DraftRequest> requests) {
  for (const DraftRequest& request : requests) request.drafts->clear();
  for (Side& side : sides_) draft_side(side, requests);
  for (std::size_t i = 0; i < requests.size(); i++) merge(requests[i], i);
}

// One model drafts for all requests, with random numbers that no other model uses.
void SideBySideDrafter::draft_side(Side& side, std::span<const DraftRequest> requests) {
  side.requests.assign(requests.begin(), requests.end());
  side.draws.clear();
  for (std::size_t i = 0; i < requests.size(); i++) {
    DraftRequest& own = side.requests[i];
    own.sequence = side.sequences[own.sequence];
    own.drafts = &side.drafts[i];
    if (own.sampling.random == nullptr) continue;
    side.draws.emplace_back(*own.sampling.random, side.first_draw);
    own.sampling.random = &side.draws.back();
  }
  side.drafter->draft(side.requests);
}

// Copies the trials of all models into the request's tree, node after node: nodes that they share
// become one, and each trial stays.
void SideBySideDrafter::merge(const DraftRequest& request, std::size_t i) {
  contexts_[request.sequence] = int_size(request.context);
  for (Side& side : sides_) {
    side.own_nodes[request.sequence].clear();
    side.numbers.assign(side.drafts[i].capacity().probs, kNoNumber);
  }
  for (int node = Drafts::kRoot; node < request.drafts->size(); node++) {
    for (Side& side : sides_) add_trials(side, side.drafts[i], request, node);
  }
}
// [end snippet side-by-side]

// Adds the trials of one model after a node of the tree, if its drafts contain the node.
void SideBySideDrafter::add_trials(Side& side, const Drafts& own, const DraftRequest& request,
                                   int node) {
  Drafts& tree = *request.drafts;
  std::vector<int>& own_nodes = side.own_nodes[request.sequence];
  own_nodes.resize(tree.size(), Drafts::kRoot);
  const int own_node = node == Drafts::kRoot ? Drafts::kRoot : own_nodes[node];
  if (node != Drafts::kRoot && own_node == Drafts::kRoot) return;
  for (const Drafts::Trial& trial : own.trials(own_node)) {
    const TokenId token = own.token(trial.node);
    const auto probs = own.probs(trial);
    const double prob = probs.empty() ? 1 : probs[token];
    const int added = add_trial(tree, node, token, number_in(tree, side, own, trial), prob);
    own_nodes.resize(tree.size(), Drafts::kRoot);
    own_nodes[added] = trial.node;
  }
}

// The number in the tree of the distribution that a trial was drawn from; copies it if it is new.
int SideBySideDrafter::number_in(Drafts& tree, Side& side, const Drafts& own,
                                 const Drafts::Trial& trial) {
  if (trial.probs == Drafts::kCertain) return Drafts::kCertain;
  int& number = side.numbers[trial.probs];
  if (number == kNoNumber) {
    number = tree.add_probs();
    std::ranges::copy(own.probs(trial), tree.probs_to_fill(number).begin());
  }
  return number;
}

// [snippet each-keeps-its-own]
// Each model keeps the beginning of the path that its own chains contain.
void SideBySideDrafter::keep(SequenceId sequence, int length, std::span<const int> path) {
  for (Side& side : sides_) {
    const std::vector<int>& own_nodes = side.own_nodes[sequence];
    path_.clear();
    for (const int node : path) {
      if (node >= std::ssize(own_nodes) || own_nodes[node] == Drafts::kRoot) break;
      path_.push_back(own_nodes[node]);
    }
    const int own_length = contexts_[sequence] + int_size(path_);
    side.drafter->keep(side.sequences[sequence], std::min(length, own_length), path_);
  }
}
// [end snippet each-keeps-its-own]

void SideBySideDrafter::truncate(SequenceId sequence, int length) {
  for (Side& side : sides_) side.drafter->truncate(side.sequences[sequence], length);
}

int SideBySideDrafter::length(SequenceId sequence) const {
  int least = sides_.front().drafter->length(sides_.front().sequences[sequence]);
  for (const Side& side : sides_) {
    least = std::min(least, side.drafter->length(side.sequences[sequence]));
  }
  return least;
}

int SideBySideDrafter::context_limit() const {
  int limit = sides_.front().drafter->context_limit();
  for (const Side& side : sides_) limit = std::min(limit, side.drafter->context_limit());
  return limit;
}

std::int64_t SideBySideDrafter::forwards() const {
  std::int64_t forwards = 0;
  for (const Side& side : sides_) forwards += side.drafter->forwards();
  return forwards;
}

Capacity SideBySideDrafter::capacity(int spec_length) const {
  std::vector<Capacity> parts;
  for (const Side& side : sides_) parts.push_back(side.drafter->capacity(spec_length));
  return side_by_side(parts);
}

}  // namespace specdec
