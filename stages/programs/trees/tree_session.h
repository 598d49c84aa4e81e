#pragma once
#include <memory>
#include <vector>

#include "common/generation.h"
#include "common/llama.h"
#include "common/run_stats.h"
#include "stages/08_token_trees/tree_steps.h"
#include "stages/programs/run/load_model.h"
#include "stages/programs/run/request.h"
#include "stages/programs/speculation/draft_setup.h"
#include "stages/programs/speculation/round_text.h"
#include "stages/programs/speculation/timed_models.h"
#include "stages/programs/trees/tree_places.h"
#include "stages/programs/trees/tree_profile.h"
#include "stages/programs/trees/tree_record.h"

namespace specdec {

// A drafter of trees as it is, with a clock that runs while it works.
class TimedTreeDrafter final : public TreeDrafter {
 public:
  explicit TimedTreeDrafter(TreeDrafter& drafter) : drafter_(drafter) {}  // it outlives this object

  SequenceId create() override { return drafter_.create(); }
  void release(SequenceId sequence) override { drafter_.release(sequence); }
  void draft(std::span<const TreeRequest> requests) override {
    const Stopwatch watch(seconds_);
    drafter_.draft(requests);
  }
  void keep(SequenceId sequence, std::span<const int> path) override {
    drafter_.keep(sequence, path);
  }
  void truncate(SequenceId sequence, int length) override { drafter_.truncate(sequence, length); }
  int length(SequenceId sequence) const override { return drafter_.length(sequence); }
  int context_limit() const override { return drafter_.context_limit(); }
  std::int64_t forwards() const override { return drafter_.forwards(); }
  TreeRoom room() const override { return drafter_.room(); }

  double seconds() const { return seconds_; }

 private:
  TreeDrafter& drafter_;
  double seconds_ = 0;
};

// Everything that a run of one request with trees is made of, from the command line. What stage 8
// does with it is its decode loop.
struct TreeSession {
  // Throws Error for whatever is wrong with the options and files.
  explicit TreeSession(const RunOptions& options);

  const RunOptions& options;
  const ModelFiles files;
  const GenerationRequest request;
  TreeProfile profile;        // --tree-profile, and what the run counts for --write-tree-profile
  const MakeTreeShape shape;  // --tree
  SpeculationRoom room;
  std::unique_ptr<Backend> backend;
  LlamaModel model;
  DraftSetup draft;
  TreePlaces places;
  std::unique_ptr<TreeDrafter> drafter;
  TreeSizes sizes;
  std::unique_ptr<KvCache> cache;
  Llama target;
  TimedModel timed_target;
  TimedTreeDrafter timed_drafter;
  TreeSteps steps;
  Dice dice;
  std::unique_ptr<TreeJudge> judge;
  RoundText text;
  Generation generation;
  std::vector<TokenId> context;  // the prompt, and what was emitted
  RunStats stats;

  // Around the decode loop: all clocks, counters and what people see are here.
  void prefill();
  void before_round();
  void after_round(const TreeRound& round);
  // After the last round: prints and writes what the options ask for.
  void finish();

 private:
  bool looked_at() const { return options.explain || !options.trace.empty(); }
  RoundRecord::State state() const;
  void show(const TreeRound& round, const RunStats& before);
  double plain_step_seconds();
  void write_trace(const Json& extra_stats) const;
  Json fields() const;

  Stopwatch::Time round_began_ = {};
  double seconds_of_passes_ = 0, seconds_of_drafts_ = 0;
  RoundRecord::State before_;
  std::vector<TreeRecord> records_;  // of --trace
  std::int64_t nodes_ = 0, trials_ = 0, trials_tested_ = 0;
  std::vector<std::int64_t> accepted_by_rank_;
};

}  // namespace specdec
