#pragma once
#include <cstdint>
#include <memory>
#include <string_view>

#include "stages/05_rejection_sampling/judge.h"
#include "stages/programs/run/options.h"
#include "stages/programs/sampling/device_judge.h"
#include "stages/programs/speculation/draft_setup.h"
#include "stages/programs/speculation/round_record.h"
#include "stages/programs/speculation/session.h"

namespace specdec {

// The rules, for --help.
inline Listings sampling_listings() { return {.rules = choices_in(acceptance_rules())}; }

// How the command line asks for sampling and judging. Throws Error where --acceptance names no
// rule.
SpeculationOptions speculation_options(const RunOptions& options);

// Whether a GPU judges, and so keeps the distributions. Not where people want to look at them
// (--explain, --trace), nor by a rule that only the host knows.
KeepProbs keep_probs(const RunOptions& options, const SpeculationOptions& speculation);

// Drafts that are drawn, by the host or where the logits are.
Drafting sampled_drafting(KeepProbs keep);

// A judge for one request, where the drafts' distributions are. REQUIRES: the target and random
// outlive it. Throws Error for options out of range.
std::unique_ptr<Judge> make_judge(const DraftAndVerify& steps, RandomSource& random,
                                  const SpeculationOptions& options,
                                  Overlaps overlaps = Overlaps::kCounted);

// "lenient" where a lenience below 1 made it so.
std::string_view rule_name(const SpeculationOptions& options);
bool is_lossless(const SpeculationOptions& options);

// What a run with this judge reports. REQUIRES: both outlive the result.
Judgement judgement(const Session& run, Judge& judge);

// For people to look at: what decided the last round. seed: that of the judge's Dice.
RoundEvidence evidence(const Judge& judge, const Drafts& drafts, std::uint64_t seed);

}  // namespace specdec
