#pragma once
#include <span>
#include <vector>

#include "common/language_model.h"
#include "stages/10_beam_search/text_tree.h"

namespace specdec {

// What a model has cached of a TextTree, as one sequence: the text, and then nodes, which share
// everything that their beams share.
//
// Invariants: a node follows its parent in the cache. If the model lacks some of the text, it has
// no nodes.
class TreeCache {
 public:
  // Closed at first. REQUIRES: the model outlives this object.
  explicit TreeCache(LanguageModel& model) : model_(model) {}
  ~TreeCache() { close(); }
  TreeCache(const TreeCache&) = delete;
  TreeCache& operator=(const TreeCache&) = delete;

  // Creates a sequence, which close() releases. Throws CacheFull if the model has none left.
  void open();
  // The same with a sequence that the caller releases, and that may have cached the beginning of
  // the text.
  void open(SequenceId sequence);
  void close();
  bool is_open() const { return sequence_ != kNoSequence; }

  // Feeds the text and the inner nodes, without logits.
  void prefill(const TextTree& tree);
  // The segment that feeds the next `count` of the tokens that prefill() would feed. REQUIRES: at
  // least `count` of them are not cached.
  Segment feed_next(const TextTree& tree, int count);

  // The segment that feeds what the model lacks of the text, and then `nodes`; the last `rows` of
  // them get logits. Valid until the next call; the caller passes it to forward(). REQUIRES: each
  // node's parent is cached, or earlier in the list.
  Segment feed(const TextTree& tree, std::span<const int> nodes, int rows);

  // The path to a leaf's parent: tokens of the text that are cached, and the places of the nodes
  // after them. REQUIRES: nothing of it is missing.
  struct Path {
    SequenceId sequence = 0;
    int text = 0;
    std::vector<int> places = {};
  };
  Path path_above(const TextTree& tree, int leaf) const;

  // The inner nodes that are not cached.
  std::vector<int> missing(const TextTree& tree) const;

  // After tree.keep(), which returned `became`: keeps the inner nodes that are left, and forgets
  // the leaves, which the next round feeds again for their logits.
  void keep(const TextTree& tree, std::span<const int> became);

 private:
  void believe_the_model();
  int place(int node) const;

  static constexpr SequenceId kNoSequence = -1;

  LanguageModel& model_;
  SequenceId sequence_ = kNoSequence;
  bool owns_sequence_ = false;
  int text_ = 0;                 // cached tokens of the text
  std::vector<int> nodes_;       // cached nodes, in the order of their places, from text_ on
  std::vector<TokenId> tokens_;  // of the last segment
  std::vector<int> parents_;
};

}  // namespace specdec
