#pragma once
#include <vector>

#include "stages/10_beam_search/beam_round.h"
#include "stages/10_beam_search/each_beam_drafter.h"

namespace specdec {

// What a beam search is asked for.
struct AskedBeams {
  std::vector<TokenId> prompt;
  int max_new_tokens = 12;
  std::vector<TokenId> eos_ids = {};
  BeamOptions beams = {};
};

struct FoundBeams {
  std::vector<Hypothesis> hypotheses;
  std::vector<BeamRound> rounds;
};

// Searches until the end. after_round: called with the run and its last round.
template <typename AfterRound>
FoundBeams search_beams(LanguageModel& target, BeamDrafter& drafter, const AskedBeams& asked,
                        const BeamDrafting& drafting, int max_rows, AfterRound&& after_round) {
  FoundBeams found;
  BeamRounds rounds(target, max_rows);
  BeamRun run(target, drafter, asked.beams, drafting, asked.prompt, asked.eos_ids,
              asked.max_new_tokens);
  rounds.prefill(run);
  while (!run.search.finished()) {
    found.rounds.push_back(rounds.round(run));
    after_round(run, found.rounds.back());
  }
  found.hypotheses.assign(run.search.hypotheses().begin(), run.search.hypotheses().end());
  return found;
}

inline FoundBeams search_beams(LanguageModel& target, BeamDrafter& drafter, const AskedBeams& asked,
                               const BeamDrafting& drafting, int max_rows = 4096) {
  return search_beams(target, drafter, asked, drafting, max_rows, [](auto&&...) {});
}

// Plain beam search: no drafts.
inline FoundBeams search_plainly(LanguageModel& target, const AskedBeams& asked) {
  NoBeamDrafter nothing;
  return search_beams(target, nothing, asked, {.spec_length = 0}, asked.beams.width);
}

}  // namespace specdec
