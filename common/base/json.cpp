#include "common/base/json.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/base/error.h"

namespace specdec {
namespace {

constexpr std::size_t kDeepest = 100;  // levels of nesting

// Builds the value from the parser's events, in one walk: linear in the text's length.
class StrictReading final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit StrictReading(const std::string& name) : name_(name) {}

  Json result;
  // Where the text stops being JSON: a byte counted from 1.
  struct Stop {
    std::size_t byte = 0;
  };

  bool null() override { return put({}); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(std::int64_t value) override { return put(value); }
  bool number_unsigned(std::uint64_t value) override { return put(value); }
  bool number_float(double value, const std::string&) override { return put(value); }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool binary(nlohmann::json::binary_t&) override { return false; }  // a text has none
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& key) override {
    if (open_.back().value.contains(key)) {
      fail("{}: the key {} occurs twice in one object", name_, excerpt(key));
    }
    open_.back().key = std::move(key);
    return true;
  }

  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::json::exception& error) override {
    if (dynamic_cast<const nlohmann::json::out_of_range*>(&error) != nullptr) {
      fail("{}: holds a number that is out of range", name_);
    }
    throw Stop{byte};
  }

 private:
  struct Open {
    Json value;  // a list or an object
    std::string key;
  };

  void check_depth() const {
    if (open_.size() > kDeepest) {
      fail("{}: JSON that is nested more than {} levels deep", name_, kDeepest);
    }
  }

  bool open(Json value) {
    check_depth();
    open_.push_back({std::move(value), ""});
    return true;
  }

  bool close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return put(std::move(value));
  }

  bool put(Json value) {
    check_depth();
    if (open_.empty()) {
      result = std::move(value);
    } else if (open_.back().value.is_array()) {
      open_.back().value.push_back(std::move(value));
    } else {
      open_.back().value[open_.back().key] = std::move(value);
    }
    return true;
  }

  const std::string& name_;
  std::vector<Open> open_;  // the containers around the current value
};

// "line 3, column 7" of a byte offset that counts from 1, as in nlohmann's parse_error.
std::string line_and_column(std::string_view text, std::size_t byte) {
  std::size_t line = 1;
  std::size_t column = 1;
  for (std::size_t i = 0; i + 1 < byte && i < text.size(); ++i) {
    column = text[i] == '\n' ? 1 : column + 1;
    line += text[i] == '\n';
  }
  return fmt::format("line {}, column {}", line, column);
}

std::string column(std::string_view, std::size_t byte) { return fmt::format("column {}", byte); }

Json parse_strictly(std::string_view text, const std::string& name,
                    std::string (*place)(std::string_view text, std::size_t byte)) {
  StrictReading reading(name);
  try {
    // See place_of_nul().
    if (const std::size_t nul = text.find('\0'); nul != text.npos)
      throw StrictReading::Stop{nul + 1};
    nlohmann::json::sax_parse(text.begin(), text.end(), &reading);
  } catch (const StrictReading::Stop& stop) {
    fail("{}: not valid JSON at {}", name, place(text, stop.byte));
  }
  return std::move(reading.result);
}

template <typename T>
T required(std::optional<T> field, const JsonObject& object, const std::string& key) {
  if (!field) object.fail_missing(key);
  return *std::move(field);
}

}  // namespace

std::optional<std::string> place_of_nul(std::string_view text) {
  const std::size_t at = text.find('\0');
  return at == text.npos ? std::nullopt : std::optional(line_and_column(text, at + 1));
}

Json parse_json(std::string_view text, const std::string& name) {
  return parse_strictly(text, name, line_and_column);
}

Json parse_json_line(std::string_view line, const std::string& name) {
  return parse_strictly(line, name, column);
}

std::optional<int> as_int(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  constexpr auto kMax = std::numeric_limits<int>::max();
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    return number <= kMax ? std::optional<int>(static_cast<int>(number)) : std::nullopt;
  }
  const auto number = value.get<std::int64_t>();
  if (number < std::numeric_limits<int>::min() || number > kMax) return std::nullopt;
  return static_cast<int>(number);
}

std::string excerpt(const Json& value) {
  std::string text = value.dump();
  constexpr std::size_t kLongest = 40;
  if (text.size() <= kLongest) return text;
  std::size_t end = kLongest - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

JsonObject::JsonObject(const Json& value, std::string name)
    : value_(&value), name_(std::move(name)) {
  if (!value.is_object()) fail("{}: expected an object, found {}", name_, excerpt(value));
}

bool JsonObject::empty() const { return value_->empty(); }

const Json* JsonObject::find(const std::string& key) const {
  const Json* field = value_->find(key);
  return field == nullptr || field->is_null() ? nullptr : field;
}

std::optional<std::string> JsonObject::string(const std::string& key) const {
  const Json* field = find(key);
  if (field == nullptr) return std::nullopt;
  if (!field->is_string()) fail_type(key, "a string");
  return field->get<std::string>();
}

std::optional<bool> JsonObject::boolean(const std::string& key) const {
  const Json* field = find(key);
  if (field == nullptr) return std::nullopt;
  if (!field->is_boolean()) fail_type(key, "true or false");
  return field->get<bool>();
}

std::optional<double> JsonObject::number(const std::string& key) const {
  const Json* field = find(key);
  if (field == nullptr) return std::nullopt;
  if (!field->is_number() || !std::isfinite(field->get<double>())) fail_type(key, "a number");
  return field->get<double>();
}

std::optional<int> JsonObject::integer(const std::string& key) const {
  const Json* field = find(key);
  if (field == nullptr) return std::nullopt;
  const std::optional<int> number = as_int(*field);
  if (!number) fail_type(key, "an integer below 2^31");
  return number;
}

std::optional<JsonObject> JsonObject::object(const std::string& key) const {
  const Json* field = find(key);
  if (field == nullptr) return std::nullopt;
  if (!field->is_object()) fail_type(key, "an object");
  return JsonObject(*field, fmt::format("{}: {}", name_, key));
}

int JsonObject::required_integer(const std::string& key) const {
  return required(integer(key), *this, key);
}

double JsonObject::required_number(const std::string& key) const {
  return required(number(key), *this, key);
}

std::string JsonObject::required_string(const std::string& key) const {
  return required(string(key), *this, key);
}

JsonObject JsonObject::required_object(const std::string& key) const {
  return required(object(key), *this, key);
}

const Json& JsonObject::required_list(const std::string& key) const {
  const Json* list = find(key);
  if (list == nullptr) fail_missing(key);
  if (!list->is_array()) fail_type(key, "a list");
  return *list;
}

void JsonObject::fail_missing(const std::string& key) const {
  fail("{}: the field {} is missing", name_, key);
}

void JsonObject::fail_type(const std::string& key, std::string_view wanted) const {
  fail("{}: {} is {}; it must be {}", name_, key, excerpt(value_->at(key)), wanted);
}

}  // namespace specdec
