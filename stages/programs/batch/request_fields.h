#pragma once
#include <string>
#include <string_view>

#include "common/base/json.h"
#include "stages/programs/run/option.h"

namespace specdec {

// Fields of a line of a request file: {"top_p": 0.9} means --top-p 0.9, with the same checks.

// Sets the option's variable to the field's value. Throws Error, naming line and field, if the
// value has the wrong type or is out of range. REQUIRES: line.has(option.field()).
void read_option_field(const Option& option, int stage, const JsonObject& line);

// The list in field `key`. Throws Error if it is no list or empty. REQUIRES: line.has(key).
const Json& some_list(const JsonObject& line, const std::string& key, std::string_view wanted);

// The text in field `key`. Throws Error if it is no text or empty. REQUIRES: line.has(key).
std::string some_text(const JsonObject& line, const std::string& key);

// Replaces options in a message by the names of fields: "--top-p is 2" becomes "top_p is 2".
// Options that no request has, such as --pages, keep their names: they are the program's.
std::string with_field_names(std::string message);
// The field that a message begins with an option of: "top_p" of "--top-p is 2". "" if it does not.
std::string field_in(std::string_view message);

}  // namespace specdec
