#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/programs/run/options.h"

namespace specdec {

// How the authors of a model recommend generating text with it, according to
// generation_config.json, apart from end tokens and lengths. Numbers that change nothing are
// absent.
struct GenerationAdvice {
  std::optional<double> temperature;  // this, top_k and top_p: only if do_sample is true
  std::optional<int> top_k;
  std::optional<double> top_p;
  std::optional<double> repetition_penalty;
  std::vector<std::string> others;  // without an option of ours: "suppress_tokens [7]"
};

// `name`: the file's name in messages. Throws Error if it is not a JSON object, or if a number is
// not one or its option refuses it.
GenerationAdvice parse_generation_advice(std::string_view json, const std::string& name);

// --generation-config: takes the target's advice unless the command line gives a number. Throws
// Error if the target has no generation_config.json, and as above.
void apply_generation_advice(RunOptions& options);

// One line that says what the target's authors recommend but the run does not do, or nothing.
// Options on the command line are the user's choice, and are not compared.
std::optional<std::string> advice_not_taken(const RunOptions& options);

// Prints that line on stderr after a run with chats or with --generation-config, unless the run is
// quiet. Advice that cannot be read becomes such a line, too.
void say_advice_not_taken(const RunOptions& options, bool has_chats);

}  // namespace specdec
