#pragma once
#include <string_view>
#include <vector>

#include "stages/programs/run/options.h"
#include "stages/programs/run/request.h"

namespace specdec {

inline constexpr std::string_view kDefaultWorkload = "poisson:rate=20,n=16";

// Makes a synthetic workload for measurements and demonstrations: requests that arrive at random. A
// spec is "poisson:" and, separated by commas,
//   rate=20              requests per second on average, from 0.001 on; inf: all at once
//   n=32                 the number of requests
// and optionally
//   seed=1               the seed of all random numbers used here
//   min_new_tokens=32    lengths are uniform between the two; by default up to the options'
//   max_new_tokens=128   max_new_tokens, and from a quarter of the largest on
//   min_prompt=16        the same for the tokens of a prompt; these are the defaults
//   max_prompt=192
//   sampled=0.5          this share of the requests, evenly spread, has temperature 0.8; the others
//                        have the options' (default: 0)
//   kinds=chat+code      the kinds of prompts: chat, code, text (default: all)
// All other options of a request are the defaults, except its seed: it is the defaults' seed plus
// the request's number, so that no two requests share their random numbers.
//
// Arrivals are a Poisson process: independent exponential gaps, in whole nanoseconds. A prompt is
// the beginning of a document of the embedded text, encoded by the target's tokenizer and cut after
// a random number of tokens, before the document's last token. There is one document for every four
// requests, so that many prompts share a prefix for the prefix cache to find.
//
// The same spec and options give the same requests on every machine.
//
// Throws Error for a spec that cannot be read or contradicts itself, for a target without a
// tokenizer, and if no document has more than min_prompt tokens.
std::vector<RunOptions> make_workload(std::string_view spec, const RunOptions& defaults,
                                      const ModelFiles& target);

}  // namespace specdec
