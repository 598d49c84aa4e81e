#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "common/speculation/drafter.h"
#include "stages/08_token_trees/tree_shape.h"

namespace specdec {

// A node that the draft model has looked at.
struct LookedAt {
  const DraftRequest* request = nullptr;
  TreeShape* shape = nullptr;
  int node = Drafts::kRoot;
  int first_draw = 0;  // the index of its first draw
};

// Adds to trees what follows the nodes of a level, where the logits are: on a device.
class TreeBrancher {
 public:
  virtual ~TreeBrancher() = default;

  // nodes: request by request, in the order of each tree. logits: [nodes.size(), V of the model].
  virtual void branch(std::span<const LookedAt> nodes, ConstDeviceRows logits) = 0;
};

// Appends the tokens of a tree from the root to a node, [node's depth + 1].
void append_path(const Drafts& tree, int node, std::vector<TokenId>& tokens);

// How the logits of drafts become distributions. Where tokens are only ranked, and temperature 0
// would leave one of them, as they do at 1.
SamplingOptions drafting_options(const TreeShape& shape, const Sampling& sampling);

// A language model that drafts trees: a pass for each level, over all nodes of all requests that
// are looked at. The nodes of the last level are never fed.
class ModelTreeDrafter final : public Drafter {
 public:
  // make_shape: for each sequence. vocab_size: of the trees' distributions; max_context: the
  // longest context and the levels; brancher: for trees whose distributions are on the model's
  // device, or null. REQUIRES: the model outlives this object, and its cache has room for such a
  // context and room().nodes more.
  ModelTreeDrafter(LanguageModel& model, const MakeTreeShape& make_shape, int max_context,
                   int vocab_size, int max_requests = 1,
                   std::unique_ptr<TreeBrancher> brancher = nullptr);

  SequenceId create() override;
  void release(SequenceId sequence) override { model_.release(sequence); }
  void draft(std::span<const DraftRequest> requests) override;
  void keep(SequenceId sequence, int length, std::span<const int> path) override;
  void truncate(SequenceId sequence, int length) override;
  int length(SequenceId sequence) const override { return model_.length(sequence); }
  int context_limit() const override { return model_.max_seq_len(); }
  std::int64_t forwards() const override { return forwards_; }
  Capacity capacity(int spec_length) const override { return capacity_(spec_length); }

 private:
  // What is known of a sequence's last tree.
  struct Growth {
    std::unique_ptr<TreeShape> shape;
    std::vector<int> level;       // nodes whose continuations are looked at; kRoot at first
    std::vector<int> places;      // [nodes of the tree] after the context in the cache; kNotFed
    std::vector<int> parents;     // of the nodes in the cache, by their places
    std::vector<TokenId> tokens;  // that are fed next
    int context = 0;
    int first_node = 0;    // of the last level
    bool is_last = false;  // of what the sequence was asked for: neither kept nor taken back yet
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
  std::vector<std::size_t> growing_;  // requests of the batch
  std::unique_ptr<TreeBrancher> brancher_;
  std::vector<LookedAt> looked_at_;
  std::vector<TokenId> history_;  // before a token
  std::vector<int> chosen_;
  std::vector<float> host_logits_;  // [V of the model]
  std::vector<double> probs_;       // [V of the trees]
  SamplingScratch scratch_;
  std::int64_t forwards_ = 0;
};

}  // namespace specdec
