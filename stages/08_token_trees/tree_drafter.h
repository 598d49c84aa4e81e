#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "common/speculation/drafter.h"
#include "stages/08_token_trees/tree_shape.h"

namespace specdec {

// A node after which the draft model has computed logits.
struct LookedAt {
  const DraftRequest* request = nullptr;
  TreeShape* shape = nullptr;
  int node = Drafts::kRoot;
  int first_draw = 0;  // the index of the first draw after this node
};

// Adds a level to several trees on the device that has the logits.
class TreeBrancher {
 public:
  virtual ~TreeBrancher() = default;

  // Adds the trials after each of `nodes`, which are grouped by request and in the order of each
  // tree. logits: [nodes.size(), V of the model], one row after each node.
  virtual void branch(std::span<const LookedAt> nodes, ConstDeviceRows logits) = 0;
};

// Appends the tokens of a tree from the root to a node, [node's depth + 1].
void append_path(const Drafts& tree, int node, std::vector<TokenId>& tokens);

// The options that turn the draft model's logits into distributions. At temperature 0 a shape that
// ranks tokens uses temperature 1, since at 0 only one token would be left.
SamplingOptions drafting_options(const TreeShape& shape, const Sampling& sampling);

// A language model that drafts trees: one pass per level, over the nodes that are continued, of all
// requests together. The nodes of the last level are never fed.
class ModelTreeDrafter final : public Drafter {
 public:
  // make_shape: called for each sequence, for requests without a shape of their own. A request's
  // own shape is a TreeShape that needs no more capacity than this one. vocab_size: V of the trees'
  // distributions. max_context: tokens of the longest context and the levels. brancher: needed if
  // the model's device keeps the trees' distributions, else null. REQUIRES: the model outlives this
  // object, and its cache has room for such a context and capacity().nodes more tokens.
  ModelTreeDrafter(LanguageModel& model, const MakeTreeShape& make_shape, int max_context,
                   int vocab_size, int max_requests = 1,
                   std::unique_ptr<TreeBrancher> brancher = nullptr);

  SequenceId create() override;
  void prefill(std::span<const Segment> chunks) override { model_.forward(chunks, {}); }
  int uncached_before(SequenceId sequence, int end) const override {
    return end - model_.length(sequence);
  }
  void release(SequenceId sequence) override { model_.release(sequence); }
  void draft(std::span<const DraftRequest> requests) override;
  void keep(SequenceId sequence, int length, std::span<const int> path) override;
  void truncate(SequenceId sequence, int length) override;
  int length(SequenceId sequence) const override { return model_.length(sequence); }
  int context_limit() const override { return model_.max_seq_len(); }
  std::int64_t forwards() const override { return forwards_; }
  Capacity capacity(int spec_length) const override { return capacity_(spec_length); }

 private:
  // The state of a sequence's last tree. A node's place is its place in the model's cache, counted
  // from the end of the context.
  struct Growth {
    std::unique_ptr<TreeShape> usual;
    TreeShape* shape = nullptr;   // of the last tree: the request's own, or `usual`
    std::vector<int> level;       // the nodes that are continued; kRoot at first
    std::vector<int> places;      // [nodes of the tree]; kNotFed if the node is not cached
    std::vector<int> parents;     // [cached nodes] the place of each node's parent; -1: the root
    std::vector<TokenId> tokens;  // the tokens that the next pass is fed
    int context = 0;              // tokens of the context
    int first_node = 0;           // the first node of the newest level
    bool is_last = false;         // the tree was neither kept nor truncated yet
  };
  static constexpr int kNotFed = -1;

  Growth& prepare(SequenceId sequence);
  void begin(const DraftRequest& request);
  Segment segment(const DraftRequest& request);
  bool grows(const DraftRequest& request, int depth);
  void end_before(const DraftRequest& request, int depth);
  void branch(std::span<const DraftRequest> requests, int depth, int rows);
  void branch_one(const DraftRequest& request, int depth, int first_row);
  bool gate_goes_on(const DraftRequest& request, int depth, int row);
  void branch_on_device(std::span<const DraftRequest> requests, int depth, int rows);
  void look_on(const DraftRequest& request, int first_node);
  void choose(const DraftRequest& request);
  std::span<const double> standardise(const DraftRequest& request, int node, ConstDeviceRows logits,
                                      const SamplingOptions& options);
  Growth& growth(SequenceId sequence) { return growths_[sequence]; }

  LanguageModel& model_;
  MakeTreeShape make_shape_;
  RoundCapacity capacity_;
  Capacity largest_;
  LogitsBuffer logits_;          // [max_requests * width, V]
  std::vector<Growth> growths_;  // by sequence
  std::vector<Segment> batch_;
  std::vector<std::size_t> growing_;  // the index of each segment's request
  std::unique_ptr<TreeBrancher> brancher_;
  std::vector<LookedAt> looked_at_;
  std::vector<TokenId> history_;  // the context and the path to a node
  std::vector<int> chosen_;
  std::vector<float> host_logits_;  // [V of the model]
  std::vector<double> probs_;       // [V of the trees]
  SamplingScratch scratch_;
  std::int64_t forwards_ = 0;
};

}  // namespace specdec
