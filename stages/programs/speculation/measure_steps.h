#pragma once
#include <functional>
#include <span>

#include "stages/04_greedy_speculation/draft_and_verify.h"
#include "stages/programs/speculation/speedup.h"

namespace specdec {

// A round of the run: how many tokens were cached before it, and how many it drafted.
struct MadeRound {
  int start = 0;
  int drafted = 0;
};

// Measures what the parts of a round cost on a finished text [T]: a plain step, the draft phase and
// the verification pass of some of the rounds that the run has made, once more. 5 rounds, and more
// until these seconds are over or there are 32, spread over the text. (Other places would not do:
// what a draft of the draft costs depends on how predictable the text is, and rounds begin where it
// was not.) Cuts both caches down on the way, so it comes last.
//
// choose: chooses a token from logits(0) after the context, as plain decoding does.
StepTimes measure_steps(DraftAndVerify& steps, std::span<const TokenId> text,
                        std::span<const MadeRound> made, const Sampling& drafting,
                        const std::function<void(std::span<const TokenId> context)>& choose,
                        double enough_seconds = 0.5);

}  // namespace specdec
