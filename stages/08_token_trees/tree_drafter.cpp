#include "stages/08_token_trees/tree_drafter.h"

#include <algorithm>
#include <utility>

#include "common/sampling/bad_logits.h"
#include "kernels/int_size.h"

namespace specdec {

ModelTreeDrafter::ModelTreeDrafter(LanguageModel& model, const MakeTreeShape& make_shape,
                                   int max_context, int vocab_size, int max_requests,
                                   std::unique_ptr<TreeBrancher> brancher)
    : model_(model),
      make_shape_(make_shape),
      capacity_(capacity_of(make_shape)),
      largest_(capacity_(make_shape()->levels())),
      logits_(model, max_requests * largest_.width),
      brancher_(std::move(brancher)),
      host_logits_(model.vocab_size()),
      probs_(vocab_size),
      scratch_(model.vocab_size()) {
  batch_.reserve(max_requests);
  growing_.reserve(max_requests);
  looked_at_.reserve(max_requests * largest_.width);
  history_.reserve(max_context);
  chosen_.reserve(largest_.nodes);
}

SequenceId ModelTreeDrafter::create() {
  const SequenceId sequence = model_.create();
  prepare(sequence);
  return sequence;
}

ModelTreeDrafter::Growth& ModelTreeDrafter::prepare(SequenceId sequence) {
  const auto index = static_cast<std::size_t>(sequence);
  if (growths_.size() <= index) growths_.resize(index + 1);
  Growth& growth = growths_[index];
  if (growth.usual) return growth;
  growth.usual = make_shape_();
  const auto nodes = static_cast<std::size_t>(largest_.nodes);
  for (auto* list : {&growth.level, &growth.places, &growth.parents}) list->reserve(nodes + 1);
  growth.tokens.reserve(largest_.width);
  return growth;
}

void ModelTreeDrafter::draft(std::span<const DraftRequest> requests) {
  for (const DraftRequest& request : requests) begin(request);
  for (int depth = 0;; depth++) {
    batch_.clear();
    growing_.clear();
    int rows = 0;
    for (std::size_t r = 0; r < requests.size(); r++) {
      if (!grows(requests[r], depth)) continue;
      batch_.push_back(segment(requests[r]));
      growing_.push_back(r);
      rows += batch_.back().logits_rows;
    }
    if (batch_.empty()) break;
    model_.forward(batch_, logits_.rows(0, rows));
    forwards_++;
    try {
      branch(requests, depth, rows);
    } catch (const BadLogits&) {
      if (requests.size() == 1) end_before(requests.front(), depth);
      throw;
    }
  }
  for (const DraftRequest& request : requests) choose(request);
}

// Whether the tree gets the level `depth`.
bool ModelTreeDrafter::grows(const DraftRequest& request, int depth) {
  const DraftGate* gate = request.sampling.gate;
  const Growth& growth = this->growth(request.sequence);
  return depth < std::min(request.spec_length, growth.shape->levels()) && !growth.level.empty() &&
         !(gate != nullptr && depth > 0 && gate->has_enough(depth));
}

// Removes the level `depth`, whose distributions are damaged, and ends the tree before it.
void ModelTreeDrafter::end_before(const DraftRequest& request, int depth) {
  Drafts& tree = *request.drafts;
  chosen_.clear();
  for (int i = 0; i < tree.size() && tree.node(i).depth < depth; i++) chosen_.push_back(i);
  tree.prune(chosen_);
  growth(request.sequence).places.resize(chosen_.size(), kNotFed);
  choose(request);
}

void ModelTreeDrafter::begin(const DraftRequest& request) {
  request.drafts->clear();
  Growth& growth = prepare(request.sequence);  // needed if a prefix cache made the sequence
  DraftShape* own = request.sampling.shape;
  growth.shape = own != nullptr ? &dynamic_cast<TreeShape&>(*own) : growth.usual.get();
  growth.shape->begin();
  growth.level.assign(1, Drafts::kRoot);
  growth.places.clear();
  growth.parents.clear();
  growth.context = int_size(request.context);
  growth.is_last = true;
}

// The tokens that the model is fed for the next level: first the uncached part of the context, in
// later passes the nodes that the shape continues.
Segment ModelTreeDrafter::segment(const DraftRequest& request) {
  Growth& growth = this->growth(request.sequence);
  if (growth.level.front() == Drafts::kRoot) {
    return {request.sequence, uncached(model_, request.sequence, request.context), 1};
  }
  growth.tokens.clear();
  for (const int node : growth.level) {
    const auto& [token, parent, depth, prob] = request.drafts->node(node);
    growth.places[node] = int_size(growth.parents);
    growth.parents.push_back(parent == Drafts::kRoot ? -1 : growth.places[parent]);
    growth.tokens.push_back(token);
  }
  return {request.sequence, growth.tokens, int_size(growth.tokens), growth.parents};
}

// Adds the level `depth` to all trees that grow. rows: the rows of logits of the pass.
void ModelTreeDrafter::branch(std::span<const DraftRequest> requests, int depth, int rows) {
  if (brancher_ != nullptr) return branch_on_device(requests, depth, rows);
  int row = 0;
  for (std::size_t i = 0; i < batch_.size(); i++) {
    branch_one(requests[growing_[i]], depth, row);
    row += batch_[i].logits_rows;
  }
}

// Adds the level `depth` to one tree, on the host. first_row: where its rows of logits begin.
void ModelTreeDrafter::branch_one(const DraftRequest& request, int depth, int first_row) {
  Growth& growth = this->growth(request.sequence);
  if (!gate_goes_on(request, depth, first_row)) return growth.level.clear();
  const int first_node = request.drafts->size();
  const auto position = int_size(request.context) + depth;
  const Sampling& sampling = request.sampling;
  TreeDraws draws(sampling.options.temperature == 0 ? nullptr : sampling.random, sampling.race,
                  position, sampling.named_by_level ? draw_index(depth, 0) : 0);
  const SamplingOptions options = drafting_options(*growth.shape, sampling);
  for (const int node : growth.level) {
    const auto probs = standardise(request, node, logits_.rows(first_row++, 1), options);
    growth.shape->branch(*request.drafts, node, probs, draws);
  }
  look_on(request, first_node);
}

// Asks the gate once for a level, with q after the first node that is continued. So the gate knows
// no draft of the level.
bool ModelTreeDrafter::gate_goes_on(const DraftRequest& request, int depth, int row) {
  DraftGate* gate = request.sampling.gate;
  if (gate == nullptr) return true;
  const SamplingOptions& options = request.sampling.options;
  const int node = growth(request.sequence).level.front();
  return gate->goes_on(standardise(request, node, logits_.rows(row, 1),
                                   options.temperature == 0 ? before_argmax(options) : options),
                       depth);
}

// Adds the level `depth` to all trees that grow, on the device, which keeps the distributions.
void ModelTreeDrafter::branch_on_device(std::span<const DraftRequest> requests, int depth,
                                        int rows) {
  looked_at_.clear();
  for (const std::size_t r : growing_) {
    Growth& growth = this->growth(requests[r].sequence);
    int draw = requests[r].sampling.named_by_level ? draw_index(depth, 0) : 0;
    for (const int node : growth.level) {
      looked_at_.push_back({&requests[r], growth.shape, node, draw});
      draw += growth.shape->wish(*requests[r].drafts, node).count;
    }
    growth.first_node = requests[r].drafts->size();
  }
  brancher_->branch(looked_at_, logits_.rows(0, rows));
  for (const std::size_t r : growing_) {
    look_on(requests[r], growth(requests[r].sequence).first_node);
  }
}

// Lets the shape pick which nodes of the newest level are continued. first_node: its first node.
void ModelTreeDrafter::look_on(const DraftRequest& request, int first_node) {
  Growth& growth = this->growth(request.sequence);
  growth.places.resize(request.drafts->size(), kNotFed);
  growth.shape->look_at(*request.drafts, first_node, growth.level);
}

void append_path(const Drafts& tree, int node, std::vector<TokenId>& tokens) {
  const auto before = static_cast<std::ptrdiff_t>(tokens.size());
  for (; node != Drafts::kRoot; node = tree.node(node).parent) {
    tokens.insert(tokens.begin() + before, tree.node(node).token);
  }
}

SamplingOptions drafting_options(const TreeShape& shape, const Sampling& sampling) {
  const bool ranks = sampling.options.temperature == 0 && !shape.draws();
  return ranks ? before_argmax(sampling.options) : sampling.options;
}

std::span<const double> ModelTreeDrafter::standardise(const DraftRequest& request, int node,
                                                      ConstDeviceRows logits,
                                                      const SamplingOptions& options) {
  history_.assign(request.context.begin(), request.context.end());
  append_path(*request.drafts, node, history_);
  const std::size_t n = std::min(probs_.size(), host_logits_.size());  // the rest is padding
  model_.backend().download(logits.row(0), host_logits_.data(), n * sizeof(float));
  probabilities(std::span(host_logits_).first(n), history_, options, scratch_,
                std::span(probs_).first(n));
  std::ranges::fill(std::span(probs_).subspan(n), 0.0);
  return probs_;
}

// Prunes the nodes that the target does not verify.
void ModelTreeDrafter::choose(const DraftRequest& request) {
  growth(request.sequence).shape->choose(*request.drafts, chosen_);
  if (std::ssize(chosen_) == request.drafts->size()) return;
  request.drafts->prune(chosen_);
  std::vector<int>& places = growth(request.sequence).places;
  for (std::size_t i = 0; i < chosen_.size(); i++) {
    places[i] = places[chosen_[i]];
  }
  places.resize(chosen_.size());
}

// [snippet keep-draft]
void ModelTreeDrafter::keep(SequenceId sequence, int length, std::span<const int> path) {
  Growth& growth = prepare(sequence);
  if (!std::exchange(growth.is_last, false)) return truncate(sequence, length);
  chosen_.clear();
  for (const int node : path) {
    const int place = growth.places[node];
    if (place != kNotFed) chosen_.push_back(growth.context + place);
  }
  if (model_.length(sequence) > growth.context) model_.keep(sequence, growth.context, chosen_);
}
// [end snippet keep-draft]

void ModelTreeDrafter::truncate(SequenceId sequence, int length) {
  prepare(sequence).is_last = false;
  if (length < model_.length(sequence)) model_.truncate(sequence, length);
}

}  // namespace specdec
