#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/stopwatch.h"
#include "common/generation.h"
#include "common/run_stats.h"
#include "stages/10_beam_search/beam_round.h"
#include "stages/10_beam_search/each_beam_drafter.h"
#include "stages/programs/beams/beam_options.h"
#include "stages/programs/beams/beam_record.h"
#include "stages/programs/self/self_draft.h"
#include "stages/programs/speculation/draft_setup.h"
#include "stages/programs/speculation/measure_steps.h"
#include "stages/programs/speculation/target_setup.h"
#include "stages/programs/speculation/timed_models.h"

namespace specdec {

// The drafter of beams that --draft-kind names, on draft's model or drafter. rows: what it reads of
// the target; null: nothing. REQUIRES: draft and rows outlive it.
std::unique_ptr<BeamDrafter> make_beam_drafter(const RunOptions& options, DraftSetup& draft,
                                               TargetRows* rows);

// The target's rows that draft reads of searches with this capacity; null if it reads none.
std::unique_ptr<TargetRows> watch_beams(const DraftSetup& draft, Llama& target, Capacity capacity);

// Wraps a drafter of one request's beams, counts the seconds of its draft phases, and shows its
// drafts to a log.
class TimedBeamDrafter final : public BeamDrafter {
 public:
  // log: null if there is none. REQUIRES: both outlive this object.
  TimedBeamDrafter(BeamDrafter& drafter, BeamLog* log) : drafter_(drafter), log_(log) {}

  int create() override { return drafter_.create(); }
  void release(int request) override { drafter_.release(request); }
  void draft(std::span<const BeamsToDraft> requests) override {
    draft_timed(requests);
    if (log_ != nullptr) log_->note_drafts(*requests.front().tree);
  }
  void keep(int request, const TextTree& tree, std::span<const int> became) override {
    const Stopwatch watch(seconds_);
    drafter_.keep(request, tree, became);
  }
  int context_limit() const override { return drafter_.context_limit(); }
  std::int64_t forwards() const override { return drafter_.forwards(); }

  double seconds() const { return seconds_; }  // total so far

 private:
  void draft_timed(std::span<const BeamsToDraft> requests) {
    const Stopwatch watch(seconds_);
    drafter_.draft(requests);
  }

  BeamDrafter& drafter_;
  BeamLog* log_;
  double seconds_ = 0;
};

// A search for one request, set up from the command line: models, caches, drafter, and the beams so
// far. The stage adds its decode loop.
struct BeamSession {
  // Throws Error for bad options and files. Warns on stderr if the draft cannot make a search
  // faster.
  explicit BeamSession(const RunOptions& options);
  BeamSession(const BeamSession&) = delete;
  BeamSession& operator=(const BeamSession&) = delete;

  const RunOptions& options;
  const ModelFiles files;
  const GenerationRequest request;
  const Capacity capacity;
  TargetSetup target;
  const SelfDraft self;
  DraftSetup draft;
  const std::unique_ptr<TargetRows> watched;  // the target as a drafter watches it; null: none does
  const std::unique_ptr<BeamDrafter> drafter;
  BeamLog log;  // for --trace
  TimedModel timed_target;
  TimedBeamDrafter timed_drafter;
  BeamRounds rounds;
  std::optional<BeamRun> beams;  // none after finish()
  RunStats stats;
  std::int64_t kept = 0;  // cached tokens beyond the common text, summed over rounds

  // The decode loop calls these. They keep all clocks, counters and logs.
  void prefill();
  void before_round();
  void after_round(const BeamRound& round);

  // Call after the last round. Measures plain steps, then prints and writes the reports of the
  // options.
  void finish();

 private:
  StepTimes measure(std::span<const TokenId> tokens);

  Stopwatch::Time began_ = {};
  double drafting_ = 0, verifying_ = 0;  // seconds before the round
  std::vector<double> levels_, passes_;  // seconds of rounds: per level of drafts, of the pass
};

}  // namespace specdec
