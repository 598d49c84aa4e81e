#pragma once
#include <memory>
#include <span>
#include <vector>

#include "common/language_model.h"
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

// The search of one request: its texts, what the target has cached of them, and the beams.
struct BeamRun {
  // REQUIRES: target and drafter outlive this object.
  BeamRun(LanguageModel& target, BeamDrafter& drafter, const BeamOptions& options,
          std::span<const TokenId> prompt, std::span<const TokenId> eos_ids, int max_new_tokens);
  ~BeamRun() { close(); }
  BeamRun(const BeamRun&) = delete;
  BeamRun& operator=(const BeamRun&) = delete;

  // Frees what both caches hold. BeamRounds::prefill() fills them again.
  void close();
  void open();  // throws CacheFull if a model has no sequence left

  BeamDrafter& drafter;
  int draft_request;
  const int prompt_tokens;
  BeamSearch search;
  TextTree tree;
  TreeCache cache;
  std::vector<int> leaves;     // the node of each beam, the best first
  std::vector<double> scores;  // of the beams
  int draft_width = 0;         // u; 0: that of the rounds

  static constexpr int kNoRequest = -1;
};

struct BeamDrafting {
  int width = 6;                // u
  int spec_length = 5;          // K, the most levels of drafts
  int context_limit = 1 << 30;  // positions that the target may use
};

// Rounds of speculative beam search, for one request or for many in the same passes. The hypotheses
// and their scores are those of plain beam search, bit for bit, whatever is drafted; plain beam
// search is a round without drafts.
class BeamRounds {
 public:
  // max_rows: the most beams and drafts of all requests. REQUIRES: target and drafter outlive this
  // object.
  BeamRounds(LanguageModel& target, BeamDrafter& drafter, const BeamDrafting& drafting,
             int max_rows);

  // Feeds the target all tokens of the prompt but the last, or after close() all but the leaves.
  void prefill(BeamRun& run);

  // Whether the caches have room for a round of these searches, and for what they lack.
  bool has_room(std::span<BeamRun* const> runs) const;

  // Takes 1 to K + 1 steps of each search. REQUIRES: none is finished.
  std::vector<BeamRound> round(std::span<BeamRun* const> runs);
  BeamRound round(BeamRun& run);

 private:
  int width(const BeamRun& run) const;
  std::vector<BeamsToDraft> to_draft(std::span<BeamRun* const> runs) const;
  void verify(std::span<BeamRun* const> runs);
  BeamRound judge(BeamRun& run, int first_row);
  static void keep(BeamRun& run, std::span<const int> nodes);

  LanguageModel& target_;
  BeamDrafter& drafter_;
  BeamDrafting drafting_;
  LogitsBuffer logits_;  // [max_rows, V]
};

}  // namespace specdec
