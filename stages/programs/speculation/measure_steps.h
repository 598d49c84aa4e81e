#pragma once
#include <functional>
#include <span>

#include "stages/04_greedy_speculation/draft_and_verify.h"
#include "stages/programs/speculation/speedup.h"

namespace specdec {

// A round of the run.
struct MadeRound {
  int start = 0;    // tokens that the target had cached before it
  int drafted = 0;  // tokens
};

// Measures the costs of the parts of a round on a finished text, [T]. Repeats a plain step, the
// draft phase and the verification pass for 5 of the run's rounds, and for up to 32 until
// half a second is over, spread over the text. (Other positions would not do: the cost of a draft
// of the draft depends on how predictable the text is, and rounds begin where it was not.)
// Truncates both caches, so call it last. choose: chooses a token from logits(0) as plain decoding
// does.
StepTimes measure_steps(DraftAndVerify& steps, std::span<const TokenId> text,
                        std::span<const MadeRound> made, const Sampling& drafting,
                        const std::function<void(std::span<const TokenId> context)>& choose);

}  // namespace specdec
