#pragma once
#include <memory>
#include <span>
#include <vector>

#include "common/generation.h"
#include "common/language_model.h"
#include "common/sampling/distribution.h"
#include "common/speculation/drafter.h"
#include "common/speculation/round.h"
#include "stages/08_token_trees/sibling_rules.h"
#include "stages/08_token_trees/token_tree.h"

namespace specdec {

// A round, and the path of its tree that the text went on along. `drafted` is the tree's depth, and
// a place is tested where at least one draft of it is.
struct TreeRound : Round {
  std::vector<int> path;       // nodes that were accepted, from the root on
  std::vector<int> tested_at;  // for each place that was tested, its trials
};

// Which path of a tree becomes text, and which token follows it.
class TreeJudge {
 public:
  virtual ~TreeJudge() = default;

  // Emits the tokens of a path and the one after it into the context and the generation, until no
  // draft is accepted or the generation ends, and writes into the round what became of the tree.
  // logits: [tree.size() + 1, V], what the target says after the pending token and after each node.
  // REQUIRES: the context is the prompt and all that was emitted; the generation is not finished.
  virtual void judge(const TokenTree& tree, DeviceRows logits, std::vector<TokenId>& context,
                     Generation& generation, TreeRound& round) = 0;

  // What drafts must be drawn with.
  const Sampling& drafting() const { return drafting_; }
  // Whether the drafts' draws must be named by their level, too.
  virtual bool looks_behind_rejection() const { return false; }

 protected:
  Sampling drafting_;
};

// What drafts must be drawn with, if the target samples with these options. Throws Error where one
// is out of range.
Sampling tree_drafting(const SamplingOptions& options, double draft_temperature,
                       RandomSource& random, bool races);

// [snippet greedy-tree-judge]
// Greedy decoding: at each node the text goes on with what the target says there, and the tree is
// followed as far as it has that token (Stratos, appendix A).
class GreedyTreeJudge final : public TreeJudge {
 public:
  // max_rows: of a tree and its root, where one call is to choose after all of them, since a device
  // answers one such call as fast as one for a row; 0: one after another, along the path.
  explicit GreedyTreeJudge(Backend& backend, int max_rows = 0)
      : backend_(backend), choices_(static_cast<std::size_t>(max_rows)) {}

  void judge(const TokenTree& tree, DeviceRows logits, std::vector<TokenId>& context,
             Generation& generation, TreeRound& round) override;

 private:
  TokenId choice(DeviceRows logits, int row) const;

  Backend& backend_;
  std::vector<TokenId> choices_;  // [max_rows]
};
// [end snippet greedy-tree-judge]

// Working memory of judges: one serves any number of them, one after the other.
struct TreeJudgingScratch {
  TreeJudgingScratch(int max_rows, int vocab_size);  // max_rows: of a tree and its root

  std::vector<float> logits;         // [V]
  std::vector<double> target_probs;  // [max_rows, V] of the last round that was judged
  std::vector<double> owed;          // [V]
  SamplingScratch sampling;
};

// Sampling: how a row of logits becomes the distribution that judges, for all that judge by one.
class SamplingTreeJudge : public TreeJudge {
 public:
  // REQUIRES: backend and random outlive this object.
  SamplingTreeJudge(Backend& backend, RandomSource& random, const SamplingOptions& options,
                    double draft_temperature, const NamedSiblingRule& rule,
                    std::shared_ptr<TreeJudgingScratch> scratch);
  // With memory of its own, as of TreeJudgingScratch.
  SamplingTreeJudge(Backend& backend, RandomSource& random, const SamplingOptions& options,
                    double draft_temperature, const NamedSiblingRule& rule, int max_rows,
                    int vocab_size)
      : SamplingTreeJudge(backend, random, options, draft_temperature, rule,
                          std::make_shared<TreeJudgingScratch>(max_rows, vocab_size)) {}

  void judge(const TokenTree& tree, DeviceRows logits, std::vector<TokenId>& context,
             Generation& generation, TreeRound& round) override;
  bool looks_behind_rejection() const override { return rule_.rule == nullptr; }

  // The distribution [V] that judged what follows a node of the last tree, or after which the last
  // token was drawn. REQUIRES: the judge was there.
  std::span<const double> target_probs(int node) const;

 private:
  void judge_path(const TokenTree& tree, DeviceRows logits, std::vector<TokenId>& context,
                  Generation& generation, TreeRound& round);
  std::span<const double> standardise(DeviceRows logits, int node,
                                      std::span<const TokenId> history);
  TokenId draw(std::span<const double> target_probs, int position);

  Backend& backend_;
  RandomSource& random_;
  SamplingOptions options_;
  const NamedSiblingRule& rule_;
  std::shared_ptr<TreeJudgingScratch> scratch_;
};

}  // namespace specdec
