#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "common/base/json_value.h"

namespace specdec {

// Parses JSON strictly. A key that occurs twice in one object is an error, because readers disagree
// on which of the two counts. Nesting that is deeper than any file here needs is an error, because
// code that walks a value is recursive. `name`: how messages call the text, usually by its file.
// Throws Error with line and column.
Json parse_json(std::string_view text, const std::string& name);

// The same for a line of a file. Messages give only the column, so `name` must say which line it
// is.
Json parse_json_line(std::string_view line, const std::string& name);

// "line 3, column 7" of the first NUL in a text, which nlohmann's parser takes for the text's end.
std::optional<std::string> place_of_nul(std::string_view text);

// A JSON object whose fields are read by name, with messages that say which file and which field
// are wrong. A field that is null counts as absent, like a missing one.
class JsonObject {
 public:
  // Throws Error when `value` is not an object. `value` must outlive this view.
  JsonObject(const Json& value, std::string name);

  const std::string& name() const { return name_; }
  bool empty() const;
  bool has(const std::string& key) const { return find(key) != nullptr; }
  const Json* find(const std::string& key) const;  // nullptr: absent

  // The field as a given type; nullopt when absent; Error when it is of another type.
  std::optional<std::string> string(const std::string& key) const;
  std::optional<bool> boolean(const std::string& key) const;
  std::optional<double> number(const std::string& key) const;  // finite; integers are accepted
  std::optional<int> integer(const std::string& key) const;    // must fit an int
  std::optional<JsonObject> object(const std::string& key) const;

  // The same for fields that must be there.
  int required_integer(const std::string& key) const;
  double required_number(const std::string& key) const;
  std::string required_string(const std::string& key) const;
  JsonObject required_object(const std::string& key) const;
  const Json& required_list(const std::string& key) const;

  [[noreturn]] void fail_missing(const std::string& key) const;
  [[noreturn]] void fail_type(const std::string& key, std::string_view wanted) const;

 private:
  const Json* value_;
  std::string name_;
};

// The integer in a JSON value, or nullopt when it is not an integer or does not fit an int.
std::optional<int> as_int(const Json& value);

// The value as text for a message, shortened to at most 40 bytes.
std::string excerpt(const Json& value);

}  // namespace specdec
