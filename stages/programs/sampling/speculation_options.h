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

// The list of rules in --help.
inline Listings sampling_listings() { return {.rules = choices_in(acceptance_rules())}; }

// The sampling, acceptance rule and lenience of the options. Throws Error if --acceptance names no
// rule.
SpeculationOptions speculation_options(const RunOptions& options);

// Where drafts keep their distributions and rounds are judged: on the host if --explain or --trace
// shows the distributions or if no GPU has the rule, else next to the logits.
KeepProbs keep_probs(const RunOptions& options, const SpeculationOptions& speculation);

// Drafting by sampling, on the host or on the device that has the logits.
Drafting sampled_drafting(KeepProbs keep);

// A judge for one request, on the device that keeps the drafts' distributions, or on the host.
// REQUIRES: the target and random outlive it. Throws Error for options out of range.
std::unique_ptr<Judge> make_judge(const DraftAndVerify& steps, RandomSource& random,
                                  const SpeculationOptions& options,
                                  Overlaps overlaps = Overlaps::kCounted);

// The name of the rule; "lenient" if the lenience is below 1.
std::string_view rule_name(const SpeculationOptions& options);
bool is_lossless(const SpeculationOptions& options);

// How the drafts were drawn and judged, for reports. REQUIRES: both outlive the result.
Judgement judgement(const Session& run, Judge& judge);

// The inputs of the last round's decisions, for --explain and --trace. seed: of the judge's Dice.
RoundEvidence evidence(const Judge& judge, const Drafts& drafts, std::uint64_t seed);

}  // namespace specdec
