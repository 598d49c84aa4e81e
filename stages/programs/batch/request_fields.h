#pragma once
#include <string>
#include <string_view>

#include "common/base/json.h"
#include "stages/programs/run/option.h"

namespace specdec {

// Fields of a request line: {"top_p": 0.9} is --top-p 0.9, with the same checks.

// Sets the option's variable to the line's value. Throws Error that names line and field: a value
// of another type, or one that the option does not take. REQUIRES: line.has(option.field()).
void read_option_field(const Option& option, int stage, const JsonObject& line);

// The elements of a list that is there. Throws Error: no list, or an empty one.
const Json& some_list(const JsonObject& line, const std::string& key, std::string_view wanted);

// A text that is there, where an empty one can only be a mistake.
std::string some_text(const JsonObject& line, const std::string& key);

}  // namespace specdec
