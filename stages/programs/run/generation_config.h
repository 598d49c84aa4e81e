#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/programs/run/options.h"

namespace specdec {

// How the authors of a model recommend to generate text with it: what a generation_config.json says
// beyond end tokens and lengths. Numbers that change nothing are absent.
struct GenerationAdvice {
  std::optional<double> temperature;  // only where do_sample is true, and so are top_k and top_p
  std::optional<int> top_k;
  std::optional<double> top_p;
  std::optional<double> repetition_penalty;
  std::vector<std::string> others;  // what no option of ours does, as "suppress_tokens [7]"
};

// `name`: what messages call the file. Throws Error: no JSON object; a number that is none, or that
// the option of its name refuses.
GenerationAdvice parse_generation_advice(std::string_view json, const std::string& name);

// --generation-config: takes the target's advice where the command line gives no number. Throws
// Error where the target has no generation_config.json, and as above.
void apply_generation_advice(RunOptions& options);

// What the target's authors recommend and the run does not do, as one line for people, or nothing.
// An option on the command line is a wish of the user's, and is not compared.
std::optional<std::string> advice_not_taken(const RunOptions& options);

// Says that line on stderr after a run with chats or with --generation-config, unless the run is
// quiet. Advice that cannot be read becomes such a line, too.
void say_advice_not_taken(const RunOptions& options, bool has_chats);

}  // namespace specdec
