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
#include "stages/programs/speculation/draft_setup.h"
#include "stages/programs/speculation/measure_steps.h"
#include "stages/programs/speculation/target_setup.h"
#include "stages/programs/speculation/timed_models.h"

namespace specdec {

// The widths of --beams and --draft-beams, and the rules of the other options about beams.
BeamOptions beam_options(const RunOptions& options);
int draft_width(const RunOptions& options);

// Throws Error for options about beams that contradict each other, the vocabulary, or the most rows
// of a pass.
void check_beam_options(const RunOptions& options, const ModelFiles& files);

// The capacity for one request: beams may have nothing in common but the prompt.
Capacity beam_capacity(const RunOptions& options, const ModelFiles& files,
                       const GenerationRequest& request);

// Drafting for beams: --draft-kind may be ngram, and lookup drafts several continuations.
Drafting beam_drafting(const RunOptions& options);

// The drafter of beams that --draft-kind names, on draft's model or drafter. REQUIRES: draft
// outlives it.
std::unique_ptr<BeamDrafter> make_beam_drafter(const RunOptions& options, DraftSetup& draft);

// Wraps a drafter of beams, and counts the seconds of its draft phases.
class TimedBeamDrafter final : public BeamDrafter {
 public:
  // REQUIRES: the drafter outlives this object.
  explicit TimedBeamDrafter(BeamDrafter& drafter) : drafter_(drafter) {}

  int create() override { return drafter_.create(); }
  void release(int request) override { drafter_.release(request); }
  void draft(std::span<const BeamsToDraft> requests) override {
    const Stopwatch watch(seconds_);
    drafter_.draft(requests);
  }
  void keep(int request, const TextTree& tree, std::span<const int> became) override {
    const Stopwatch watch(seconds_);
    drafter_.keep(request, tree, became);
  }
  int context_limit() const override { return drafter_.context_limit(); }
  std::int64_t forwards() const override { return drafter_.forwards(); }

  double seconds() const { return seconds_; }  // total so far

 private:
  BeamDrafter& drafter_;
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
  DraftSetup draft;
  const std::unique_ptr<BeamDrafter> drafter;
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
