#pragma once
#include <optional>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "common/speculation/round.h"
#include "stages/10_beam_search/beam_drafter.h"

namespace specdec {

// One step of a search, for reports.
struct BeamStep {
  std::vector<Continuation> candidates;  // the best ones, of which some run on and some end
  std::vector<Continuation> running;     // those that run on, the best first
  int undrafted = 0;                     // how many of these the tree lacks
  int hypotheses = 0;                    // found so far
};

// The outcome of one round.
struct BeamRound {
  int beams = 0;                     // that the first step continues
  int start = 0;                     // generated tokens of each beam before
  int drafted = 0;                   // levels of drafts
  int rows = 0;                      // of the target's pass: beams and drafts
  int kept = 0;                      // tail: tokens beyond the common text that were cached before
  int hypotheses = 0;                // found before
  std::vector<BeamStep> steps = {};  // 1 to drafted + 1
};

// A round as one of stage 4, where a token is a step of all beams. Levels of drafts after the end
// of a search count nowhere.
Round as_round(const BeamRound& beams, bool finished);

// How beams are drafted.
struct BeamDrafting {
  int width = 6;                // u
  int spec_length = 5;          // K, the most levels of drafts
  int context_limit = 1 << 30;  // positions that the target may use
};

// The search of one request: its texts, what the target has cached of them, and the beams.
struct BeamRun {
  // Caches nothing at first. REQUIRES: target and drafter outlive this object.
  BeamRun(LanguageModel& target, BeamDrafter& drafter, const BeamOptions& options,
          const BeamDrafting& drafting, std::span<const TokenId> prompt,
          std::span<const TokenId> eos_ids, int max_new_tokens);
  ~BeamRun() { close(); }
  BeamRun(const BeamRun&) = delete;
  BeamRun& operator=(const BeamRun&) = delete;

  int spec_length() const;  // K of the next round
  // Frees what both caches hold. The texts and scores stay, so the search can go on.
  void close();

  BeamDrafter& drafter;
  const BeamDrafting drafting;
  const int prompt_tokens;
  int draft_request = kNoRequest;
  BeamSearch search;
  TextTree tree;
  TreeCache cache;
  std::vector<int> leaves;     // the node of each beam, the best first
  std::vector<double> scores;  // of the beams

  static constexpr int kNoRequest = -1;
};

// Rounds of speculative beam search for one request. The hypotheses and their scores are those of
// plain beam search, bit for bit, whatever is drafted; plain beam search is a round without drafts.
class BeamRounds {
 public:
  // max_rows: the most beams and drafts of a pass. REQUIRES: the target outlives this object.
  BeamRounds(LanguageModel& target, int max_rows) : target_(target), logits_(target, max_rows) {}

  // Feeds the target all tokens of the prompt but the last, or after close() all but the leaves.
  static void prefill(BeamRun& run);

  // Takes 1 to K + 1 steps of the search. REQUIRES: it is not finished.
  BeamRound round(BeamRun& run);

  // The phases of a round; a batch makes each of them for all of its requests.
  // What is drafted; nothing if K is 0.
  static std::optional<BeamsToDraft> to_draft(BeamRun& run);
  // The leaves and drafts, for the target's pass.
  static Segment rows(BeamRun& run);
  // logits: [first_row + the run's rows, V], of the pass.
  static BeamRound judge(BeamRun& run, Backend& backend, ConstDeviceRows logits, int first_row);
  // Forgets what no beam begins with. Without judge(), undoes the drafts.
  static void roll_back(BeamRun& run);

 private:
  LanguageModel& target_;
  LogitsBuffer logits_;  // [max_rows, V]
};

}  // namespace specdec
