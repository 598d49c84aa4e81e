#include "common/speculation/drafts.h"

#include <algorithm>

namespace specdec {

Drafts::Drafts(const Capacity& capacity, int vocab_size, Backend* device)
    : capacity_(capacity), vocab_size_(vocab_size), device_(device) {
  probs_.resize(device ? static_cast<std::size_t>(vocab_size) : row(capacity.probs));
  if (device) probs_on_device_ = DeviceArray<double>(*device, row(capacity.probs));
  const auto nodes = static_cast<std::size_t>(capacity.nodes);
  const auto trials = static_cast<std::size_t>(capacity.trials);
  tokens_.reserve(nodes);
  nodes_.reserve(nodes);
  parents_.reserve(nodes + 1);
  after_.reserve(nodes + 1);
  trials_.reserve(trials);
  if (device) device_rows_.reserve(trials);
  clear();
}

void Drafts::clear() {
  tokens_.clear();
  nodes_.clear();
  parents_.assign(1, kRoot);
  trials_.clear();
  after_.assign(1, {});
  device_rows_.clear();
  n_probs_ = 0;
  branches_ = false;
}

// ---- a chain

std::span<double> Drafts::next_probs() {
  SPECDEC_CHECK(size() < capacity_.probs && vocab_size_ > 0, "room for a distribution");
  if (on_device()) return probs_;
  return std::span(probs_).subspan(row(size()), vocab_size_);
}

void Drafts::add_drawn(TokenId token) {
  const double token_prob = next_probs()[token];
  if (on_device()) device_->upload(probs_.data(), next_device_probs(), row(1) * sizeof(double));
  add(token, false, token_prob);
}

// Token i of a chain owns distribution i, even if the token is certain and leaves it unused.
void Drafts::add(TokenId token, bool certain, double token_prob) {
  const int i = size();
  add_trial(add_node(i - 1, token, token_prob), certain ? kCertain : i);
  n_probs_ = i + 1;
}

// ---- a tree

std::span<const Drafts::Trial> Drafts::trials(int parent) const {
  const auto [first, count] = after_[parent + 1];
  return std::span(trials_).subspan(first, count);
}

int Drafts::drafts_through(int i) const {
  return static_cast<int>(std::ranges::count(trials(node(i).parent), i, &Trial::node));
}

int Drafts::child(int parent, TokenId token) const {
  for (const Trial& trial : trials(parent)) {
    if (node(trial.node).token == token) return trial.node;
  }
  return kRoot;
}

std::span<const double> Drafts::probs(const Trial& trial) const {
  SPECDEC_CHECK(!on_device(), "distributions in host memory");
  if (trial.probs == kCertain) return {};
  return std::span(probs_).subspan(row(trial.probs), vocab_size_);
}

int Drafts::add_probs() {
  SPECDEC_CHECK(n_probs_ < capacity_.probs, "room for {} distributions", capacity_.probs);
  return n_probs_++;
}

std::span<double> Drafts::probs_to_fill(int number) {
  SPECDEC_CHECK(!on_device(), "distributions in host memory");
  return std::span(probs_).subspan(row(number), vocab_size_);
}

double* Drafts::device_probs_to_fill(int number) const {
  SPECDEC_CHECK(on_device() && number < capacity_.probs && vocab_size_ > 0,
                "room for a distribution in device memory");
  return probs_on_device_.data() + row(number);
}

int Drafts::add_node(int parent, TokenId token, double token_prob) {
  SPECDEC_CHECK(size() < capacity_.nodes, "at most {} drafts", capacity_.nodes);
  Node added{token, parent};
  added.draft_prob = token_prob;
  if (parent != kRoot) {
    added.depth = node(parent).depth + 1;
    added.draft_prob *= node(parent).draft_prob;
  }
  SPECDEC_CHECK(nodes_.empty() || nodes_.back().depth <= added.depth, "level after level");
  note(added);
  return size() - 1;
}

void Drafts::note(const Node& node) {
  branches_ = branches_ || node.parent != size() - 1;
  tokens_.push_back(node.token);
  nodes_.push_back(node);
  parents_.push_back(node.parent + 1);
  after_.push_back({});
}

void Drafts::add_trial(int node, int probs) {
  SPECDEC_CHECK(n_trials() < capacity_.trials, "at most {} trials", capacity_.trials);
  const Range& range = after_[nodes_[node].parent + 1];
  SPECDEC_CHECK(range.count == 0 || range.first + range.count == n_trials(),
                "the trials after one node together");
  note(Trial{node, probs});
}

void Drafts::note(const Trial& trial) {
  Range& range = after_[node(trial.node).parent + 1];
  if (range.count++ == 0) range.first = n_trials();
  trials_.push_back(trial);
  if (on_device()) device_rows_.push_back(device_probs(trial));
}

void Drafts::prune(std::span<const int> kept) {
  const std::vector<Node> nodes = nodes_;
  const std::vector<Trial> trials = trials_;
  const int n_probs = n_probs_;
  std::vector<int> number(nodes.size(), kRoot);
  clear();
  n_probs_ = n_probs;
  for (const int old : kept) {
    Node moved = nodes[old];
    if (moved.parent != kRoot) moved.parent = number[moved.parent];
    number[old] = size();
    note(moved);
  }
  for (const Trial& trial : trials) {
    const int node = number[trial.node];
    if (node != kRoot) note(Trial{node, trial.probs});
  }
}

std::vector<Drafts> make_drafts(int count, const Capacity& capacity, int vocab_size,
                                Backend* device) {
  std::vector<Drafts> drafts;
  drafts.reserve(count);
  for (int i = 0; i < count; i++) drafts.emplace_back(capacity, vocab_size, device);
  return drafts;
}

}  // namespace specdec
