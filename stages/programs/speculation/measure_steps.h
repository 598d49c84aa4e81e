#pragma once
#include <functional>
#include <span>

#include "common/run_stats.h"
#include "stages/04_greedy_speculation/draft_and_verify.h"
#include "stages/programs/speculation/speedup.h"

namespace specdec {

// Measures what the parts of a round cost on a finished text [T], of which the first `prompt`
// tokens were the prompt: plain steps, draft phases and verification passes in turn, at places
// spread over the generated part: 5 of each, and more until so many seconds are over or there are
// 32. Cuts both caches down on the way, so it comes last.
//
// stats: the run's, whose rounds say which K are measured, each as often as it occurred.
// choose: chooses a token from logits(0) after the context, as plain decoding does.
StepTimes measure_steps(DraftAndVerify& steps, std::span<const TokenId> text, int prompt,
                        const RunStats& stats, const Sampling& drafting,
                        const std::function<void(std::span<const TokenId> context)>& choose,
                        double enough_seconds = 0.5);

}  // namespace specdec
