#pragma once
#include <string_view>
#include <vector>

#include "stages/programs/run/options.h"
#include "stages/programs/run/request.h"

namespace specdec {

inline constexpr std::string_view kDefaultWorkload = "poisson:rate=20,n=16";

// Makes up requests that arrive at random, for measurements and demonstrations. A spec is
// "poisson:" and, separated by commas,
//   rate=20              requests a second on average, from 0.001 on; inf: all at once
//   n=32                 requests
// and perhaps
//   seed=1               of everything here that is random
//   min_new_tokens=32    lengths are uniform between the two; by default up to the options'
//   max_new_tokens=128   max_new_tokens, and from a quarter of the most on
//   min_prompt=16        tokens, the same
//   max_prompt=192
//   sampled=0.5          this share of the requests, evenly spread, has temperature 0.8; the others
//                        have the options' (default: 0)
//   kinds=chat+code      what the prompts are: chat, code, text (default: all)
// All other options of a request are the given ones, but for its seed, which is options.seed + its
// number, so that no two requests draw alike.
//
// Arrivals are a Poisson process: independent exponential gaps, of whole nanoseconds. A prompt is
// the beginning of a document of the embedded text, encoded by the target's tokenizer and cut after
// a random number of tokens; at least one token of the document is left. All prompts come from a
// quarter as many documents as there are requests, so many share their beginnings, which is what a
// prefix cache lives on.
//
// The same spec and options give the same requests on every machine.
//
// Throws Error: a spec that cannot be read, or contradicts itself; a target without a tokenizer; no
// document with min_prompt tokens.
std::vector<RunOptions> make_workload(std::string_view spec, const RunOptions& defaults,
                                      const ModelFiles& target);

}  // namespace specdec
