#pragma once
#include <memory>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "stages/06_batched_verification/rounds.h"
#include "stages/08_token_trees/tree_drafter.h"
#include "stages/08_token_trees/tree_judge.h"

namespace specdec {

// The most tokens of a request that are ever cached where its drafts are trees that take this room:
// in its last round, and in the last one that has a tree.
MostCached most_cached_with_trees(const BatchRequest& request, const TreeRoom& room,
                                  int draft_context_limit);

// A tree before it is judged, with the rows that the pass computed for it.
struct TreeToJudge {
  RequestState* request = nullptr;
  const TokenTree* tree = nullptr;
  DeviceRows logits;           // [tree->size() + 1, V]
  TreeRound* round = nullptr;  // to be written into
};

// Judges the trees of a step by one siblings' rule: here each request's by a SamplingTreeJudge, one
// after the other. What judges elsewhere, all at once, derives from it.
class BatchTreeJudge {
 public:
  // max_rows: of a tree and its root. REQUIRES: backend and rule outlive this object.
  BatchTreeJudge(Backend& backend, const NamedSiblingRule& rule, int max_rows, int vocab_size);
  virtual ~BatchTreeJudge() = default;

  // The memory in which it wants the distributions of trees; null: the host's.
  virtual Backend* memory() const { return nullptr; }
  // An Error fails the request that caused it.
  virtual void judge(std::span<const TreeToJudge> trees);

  // The request's own judge, which says what its drafts are drawn with.
  SamplingTreeJudge judge_of(RequestState& request) const;

 protected:
  Backend& backend_;
  const NamedSiblingRule& rule_;

 private:
  std::shared_ptr<TreeJudgingScratch> scratch_;
};

// Rounds of trees for the engine of stage 6: a tree for each request, drafted side by side; one
// pass of the target over the nodes of all of them, and over prompts; and each request goes on
// along its own path. So trees are ragged twice, in their depth and in their width. Nodes count as
// rows and as places in the caches; levels count against the contexts.
//
// K of a request is the most levels of its trees. Its drafts are judged by the siblings' rule of
// the judge, not by its acceptance rule.
class TreeRounds final : public Rounds {
 public:
  // REQUIRES: target, drafter and judge outlive this object; the models' tokens are the same;
  // drafter and judge have room for max_batch requests.
  TreeRounds(LanguageModel& target, TreeDrafter& drafter, BatchTreeJudge& judge, int max_batch);

  RoundNeeds needs(const RequestState& request) const override;
  int most_rows() const override { return drafter_.room().verified + 1; }
  MostCached most_cached(const BatchRequest& request) const override;

  void draft(std::span<RequestState* const> batch) override;
  void verify(std::span<RequestState* const> batch, std::span<const Prefill> prefills) override;
  void judge(std::span<RequestState* const> batch) override;
  void roll_back(RequestState& request) override;
  void undo_draft(std::span<RequestState* const> batch) override;
  int rows(const RequestState& request) const override { return rows_of(request.sequence, pass_); }

  SequenceId create_draft() override { return drafter_.create(); }
  void release_draft(SequenceId sequence) override { drafter_.release(sequence); }
  int draft_length(SequenceId sequence) const override { return drafter_.length(sequence); }
  std::int64_t draft_forwards() const override { return drafter_.forwards(); }

  // Of the last step, for people and tests: the tree of round i of the batch, what became of it,
  // and the logits of all rounds that did not fail before the pass, one after the other.
  const TokenTree& tree(int i) const { return places_[static_cast<std::size_t>(i)].tree; }
  const TreeRound& round(int i) const { return places_[static_cast<std::size_t>(i)].round; }
  DeviceRows logits(int first, int count) const { return logits_.rows(first, count); }
  int round_rows() const { return round_rows_; }

 private:
  // Where a round of the batch is made.
  struct Place {
    Place(const TreeRoom& room, int vocab_size, Backend* memory);
    int rows() const { return tree.size() + 1; }

    RequestId request = -1;
    TokenTree tree;
    TreeRound round;
    std::vector<TokenId> tokens;  // [rows()] the pending token and the nodes
    std::vector<int> parents;     // [rows()]
  };

  int levels(const RequestState& request) const;
  Segment segment(Place& place, const RequestState& request);
  const Place& place_of(const RequestState& request) const;

  LanguageModel& target_;
  TreeDrafter& drafter_;
  BatchTreeJudge& judge_;
  std::vector<Place> places_;  // [max_batch]
  std::vector<TreeRequest> requests_;
  std::vector<RequestState*> drafting_;  // whose they are
  std::vector<Segment> pass_;
  std::vector<TreeToJudge> to_judge_;
  std::vector<int> kept_;
  LogitsBuffer logits_;  // [max_batch * most_rows(), V]
  int round_rows_ = 0;
};

}  // namespace specdec
