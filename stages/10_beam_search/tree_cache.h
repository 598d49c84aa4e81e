#pragma once
#include <span>
#include <vector>

#include "common/language_model.h"
#include "stages/10_beam_search/text_tree.h"

namespace specdec {

// What a model has cached of a TextTree, as one sequence: the text, and then nodes, which share
// everything that their beams share. Unusable after an Error.
//
// Invariants: a node follows its parent in the cache. If the model lacks some of the text, it has
// no nodes.
class TreeCache {
 public:
  // REQUIRES: the model outlives this object.
  explicit TreeCache(LanguageModel& model) : model_(model), sequence_(model.create()) {}
  ~TreeCache() { close(); }
  TreeCache(const TreeCache&) = delete;
  TreeCache& operator=(const TreeCache&) = delete;

  // Feeds the text and the inner nodes, without logits.
  void prefill(const TextTree& tree);
  // Frees what is cached. After this, nothing but open() and prefill() may follow.
  void close();
  void open();  // throws CacheFull if the model has no sequence left

  // The segment that feeds what the model lacks of the text, and then `nodes`; the last `rows` of
  // them get logits. Valid until the next call; the caller passes it to forward(). REQUIRES: each
  // node's parent is cached, or earlier in the list.
  Segment feed(const TextTree& tree, std::span<const int> nodes, int rows);

  // The inner nodes that are not cached.
  std::vector<int> missing(const TextTree& tree) const;

  // After tree.keep(), which returned `became`: keeps the inner nodes that are left, and forgets
  // the leaves, which the next round feeds again for their logits.
  void keep(const TextTree& tree, std::span<const int> became);

  int length() const { return model_.length(sequence_); }
  // What the cache has to make room for until `nodes` more nodes are cached.
  Extension extension(const TextTree& tree, int nodes) const;

 private:
  int place(int node) const;

  static constexpr SequenceId kNoSequence = -1;

  LanguageModel& model_;
  SequenceId sequence_;
  int text_ = 0;                 // cached tokens of the text
  std::vector<int> nodes_;       // cached nodes, in the order of their places, from text_ on
  std::vector<TokenId> tokens_;  // of the last segment
  std::vector<int> parents_;
};

}  // namespace specdec
