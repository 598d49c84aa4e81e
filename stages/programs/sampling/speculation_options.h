#pragma once
#include <cstdint>
#include <string_view>

#include "stages/05_rejection_sampling/judge.h"
#include "stages/programs/run/options.h"
#include "stages/programs/speculation/round_record.h"

namespace specdec {

// How the command line asks for sampling and judging. Throws Error where --acceptance names no
// rule.
SpeculationOptions speculation_options(const RunOptions& options);

// Whether a GPU judges, and so keeps the distributions. Not where people want to look at them
// (--explain, --trace), nor by a rule that only the host knows.
KeepProbs keep_probs(const RunOptions& options, const SpeculationOptions& speculation);

// "lenient" where a lenience below 1 made it so.
std::string_view rule_name(const SpeculationOptions& options);
bool is_lossless(const SpeculationOptions& options);

// For people to look at: what decided the last round. seed: that of the judge's Dice.
RoundEvidence evidence(const Judge& judge, const Drafts& drafts, std::uint64_t seed);

}  // namespace specdec
