#pragma once
#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "stages/08_token_trees/lookup_tree_drafter.h"
#include "stages/08_token_trees/side_by_side_drafter.h"
#include "stages/08_token_trees/tree_drafter.h"
#include "stages/08_token_trees/tree_judge.h"
#include "stages/08_token_trees/tree_round.h"
#include "tests/batch_tables.h"
#include "tests/tree_steps.h"

// Engines on table models whose rounds are trees, and the same requests run alone.
namespace specdec::batch {

template <typename Shape, typename... Arguments>
MakeTreeShape shape(Arguments... arguments) {
  return [=] { return std::make_unique<Shape>(arguments...); };
}

// How an engine's trees are made and judged.
struct TreeKind {
  MakeTreeShape shape = {};  // null: lookup
  const NamedSiblingRule* rule = nullptr;
  bool grown = false;
  // These draft side by side, each such a tree, instead of the engine's draft model.
  std::vector<LanguageModel*> beside = {};

  std::unique_ptr<Drafter> drafter(LanguageModel& draft, int max_context, int vocab_size,
                                   int max_requests) const {
    const auto growing = [&](LanguageModel& model) {
      return std::make_unique<ModelTreeDrafter>(model, shape, max_context, vocab_size,
                                                max_requests);
    };
    if (!beside.empty()) {
      std::vector<std::shared_ptr<Drafter>> drafters;
      for (LanguageModel* model : beside) drafters.push_back(growing(*model));
      return std::make_unique<SideBySideDrafter>(std::move(drafters), shape()->levels(), vocab_size,
                                                 max_requests);
    }
    if (shape) return growing(draft);
    return std::make_unique<LookupTreeDrafter>(
        LookupTreeDrafter::Options{.continuations = 3, .levels = 4, .min_match = 1});
  }
  bool drafts_with_the_cache() const { return shape != nullptr && beside.empty(); }
  // The capacity of a round with this K.
  Capacity capacity(int K) const {
    TableModel none(2, [](auto) { return std::span<const float>(); });
    return drafter(none, 1, 2, 1)->capacity(K);
  }
  RoundCapacity capacities() const {
    return [*this](int K) { return capacity(K); };
  }
  Capacity room() const { return capacity(8); }  // of the largest round
};

// Stage 8's decode loop for one request.
inline Outcome run_tree_alone(LanguageModel& target, Drafter& drafter, const NamedSiblingRule& rule,
                              const BatchRequest& request, const Tokenizer* tokenizer = nullptr) {
  Dice dice(request.seed);
  SamplingTreeJudge judge(
      target.backend(), dice, request.speculation, rule,
      std::make_shared<JudgingScratch>(drafter.capacity(8).verified, target.vocab_size()));
  DraftAndVerify steps =
      tree_steps(target, drafter, request.spec_length, context_limit(target, request));
  return run_alone(steps, request, tokenizer, [&](auto& context, auto& generation) {
    return tree_round(steps, judge, context, generation);
  });
}

// TableEngine with trees.
class TreeEngine : public TableEngine {
 public:
  TreeEngine(const TablePair& tables, const TableShape& shape, const TreeKind& kind)
      : TableEngine(tables, shape,
                    {.room = kind.room(),
                     .make_drafter =
                         [&](LanguageModel& model, int max_context, int max_requests) {
                           return kind.drafter(model, max_context, tables.target->vocab_size(),
                                               max_requests);
                         },
                     .draft_has_cache = kind.drafts_with_the_cache(),
                     .judging = judging_of_trees(*kind.rule)}),
        kind_(kind) {}

  Outcome alone(const BatchRequest& request) const {
    TableModel model = target_table(), small = draft_table();
    const auto by = kind_.drafter(small, shape_.positions + kind_.room().levels, V(), 1);
    return run_tree_alone(model, *by, *kind_.rule, request);
  }
  // The request alone without speculation, with the acceptance rule of this name.
  Outcome plain(BatchRequest request, std::string_view rule) const {
    TableModel model = target_table();
    NoDrafter nothing;
    request.spec_length = 0;
    request.speculation.rule = &find_acceptance_rule(rule);
    return run_alone(model, nothing, request);
  }

 private:
  TreeKind kind_;
};

// A BatchRun whose rounds are trees.
class TreeBatchRun final : public BatchRun {
 public:
  TreeBatchRun(BatchEngine& engine, std::vector<Arrival> arrivals, bool grown)
      : BatchRun(engine, std::move(arrivals)), grown_(grown) {}

 private:
  // The draft model has cached the pending token and the accepted path, except nodes of the last
  // level. With a GrownTree, nodes of any level may be missing.
  void check_draft(int n, const Round& round, int length) const override {
    EXPECT_EQ(round.drafted, engine().rounds().drafts(n).length());
    EXPECT_GT(length, round.start);
    EXPECT_LE(length, round.start + 1 + round.accepted);
    if (!grown_ && round.accepted < round.drafted) {
      EXPECT_EQ(length, round.start + 1 + round.accepted);
    }
  }

  bool grown_;
};

}  // namespace specdec::batch
