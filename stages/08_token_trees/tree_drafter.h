#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "common/speculation/drafter.h"
#include "stages/08_token_trees/tree_shape.h"

namespace specdec {

// [snippet tree-drafter]
struct TreeRequest {
  SequenceId sequence = 0;           // of the drafter
  std::span<const TokenId> context;  // prompt and text; the last token is the pending one
  int levels = 0;                    // the most tokens of a path
  Sampling sampling;
  bool named_by_level = false;  // the level is a part of the draws' names (TreeDraws)
  TokenTree* tree = nullptr;    // what comes out; it is cleared first
};

// Proposes how texts go on, several ways each.
class TreeDrafter {
 public:
  virtual ~TreeDrafter() = default;

  virtual SequenceId create() = 0;
  virtual void release(SequenceId sequence) = 0;

  // A tree for each request; the same that the request would get alone.
  // REQUIRES: distinct sequences; levels <= room().levels; context.size() - 1 + levels <=
  // context_limit(); since the last tree of a sequence, keep() or truncate() was called.
  virtual void draft(std::span<const TreeRequest> requests) = 0;

  // Of the last tree of the sequence, the nodes of this path are in the text now, from the root on,
  // and no others.
  virtual void keep(SequenceId sequence, std::span<const int> path) = 0;

  // Forgets the last tree of the sequence, which was not verified, and of its context the tokens
  // from `length` on, as far as it has seen any.
  virtual void truncate(SequenceId sequence, int length) = 0;

  virtual int length(SequenceId sequence) const = 0;  // tokens of its context that are cached
  virtual int context_limit() const { return std::numeric_limits<int>::max(); }
  virtual std::int64_t forwards() const { return 0; }  // passes of a model so far
  virtual TreeRoom room() const = 0;                   // what a tree takes at most
};
// [end snippet tree-drafter]

// A node that the draft model has looked at.
struct LookedAt {
  const TreeRequest* request = nullptr;
  TreeShape* shape = nullptr;
  int node = TokenTree::kRoot;
  int first_draw = 0;  // the index of its first draw
};

// Adds to trees what follows the nodes of a level, where the logits are: on a device.
class TreeBrancher {
 public:
  virtual ~TreeBrancher() = default;

  // nodes: request by request, in the order of each tree. logits: [nodes.size(), V of the model].
  virtual void branch(std::span<const LookedAt> nodes, ConstDeviceRows logits) = 0;
};

// The tokens of a tree from the root to a node, [node's depth + 1], behind what `tokens` has.
void append_path(const TokenTree& tree, int node, std::vector<TokenId>& tokens);

// How the logits of drafts become distributions. Where tokens are only ranked, and temperature 0
// would leave one of them, as they do at 1.
SamplingOptions drafting_options(const TreeShape& shape, const Sampling& sampling);

// A language model that drafts trees: a pass for each level, over all nodes of all requests that
// are looked at. The nodes of the last level are never fed.
class ModelTreeDrafter final : public TreeDrafter {
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
  void draft(std::span<const TreeRequest> requests) override;
  void keep(SequenceId sequence, std::span<const int> path) override;
  void truncate(SequenceId sequence, int length) override;
  int length(SequenceId sequence) const override { return model_.length(sequence); }
  int context_limit() const override { return model_.max_seq_len(); }
  std::int64_t forwards() const override { return forwards_; }
  TreeRoom room() const override { return room_; }

 private:
  // What is known of a sequence's last tree.
  struct Growth {
    std::unique_ptr<TreeShape> shape;
    std::vector<int> level;       // nodes whose continuations are looked at; kRoot at first
    std::vector<int> places;      // [nodes of the tree] behind the context in the cache; kNotFed
    std::vector<int> parents;     // of the nodes in the cache, by their places
    std::vector<TokenId> tokens;  // that are fed next
    int context = 0;
    int first_node = 0;  // of the last level
  };
  static constexpr int kNotFed = -1;

  Growth& prepare(SequenceId sequence);
  void begin(const TreeRequest& request);
  Segment segment(const TreeRequest& request);
  void branch(const TreeRequest& request, int depth, int first_row);
  void branch_on_device(std::span<const TreeRequest> requests, int depth, int rows);
  void look_on(const TreeRequest& request, int first_node);
  void choose(const TreeRequest& request);
  std::span<const double> standardise(const TreeRequest& request, int node, ConstDeviceRows logits);
  Growth& growth(SequenceId sequence) { return growths_[static_cast<std::size_t>(sequence)]; }

  LanguageModel& model_;
  MakeTreeShape make_shape_;
  TreeRoom room_;
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
