#include "common/base/json_value.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "common/base/utf8.h"

namespace specdec {
namespace {

std::string as_utf8(std::string bytes) {
  if (!find_invalid_utf8(bytes)) return bytes;
  std::string text;
  LossyUtf8 characters;
  characters.push(bytes, text);
  characters.finish(text);
  return text;
}

[[noreturn]] void wrong_type(const Json& value, const char* wanted) {
  throw std::runtime_error(fmt::format("JSON: {} is not {}", value.dump(), wanted));
}

void read_number(const Json& json, const auto& value, auto& result) {
  if (!json.is_number()) wrong_type(json, "a number");
  std::visit(
      [&](const auto& number) {
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(number)>>) result = number;
      },
      value);
}

// Whether a list in braces means an object.
bool is_field(const Json& value) {
  return value.is_array() && value.size() == 2 && value[0].is_string();
}

Json from_nlohmann(const nlohmann::json& value) {
  switch (value.type()) {
    case nlohmann::json::value_t::boolean:
      return value.get<bool>();
    case nlohmann::json::value_t::number_integer:
      return value.get<std::int64_t>();
    case nlohmann::json::value_t::number_unsigned:
      return value.get<std::uint64_t>();
    case nlohmann::json::value_t::number_float:
      return value.get<double>();
    case nlohmann::json::value_t::string:
      return value.get_ref<const std::string&>();
    case nlohmann::json::value_t::array: {
      Json::Array list;
      for (const nlohmann::json& element : value) list.push_back(from_nlohmann(element));
      return Json(std::move(list));
    }
    case nlohmann::json::value_t::object: {
      Json::Object fields;
      for (const auto& [key, field] : value.items()) fields.emplace(key, from_nlohmann(field));
      return Json(std::move(fields));
    }
    default:
      return nullptr;
  }
}

nlohmann::json to_nlohmann(const Json& value) {
  if (value.is_null()) return nullptr;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    nlohmann::json list = nlohmann::json::array();
    for (const Json& element : value) list.push_back(to_nlohmann(element));
    return list;
  }
  nlohmann::json fields = nlohmann::json::object();
  for (const auto& [key, field] : value.items()) fields[key] = to_nlohmann(field);
  return fields;
}

}  // namespace

Json::Json() = default;
Json::Json(std::nullptr_t) {}
Json::Json(int value) : value_(std::int64_t{value}) {}
Json::Json(unsigned value) : value_(std::uint64_t{value}) {}
Json::Json(long value) : value_(std::int64_t{value}) {}
Json::Json(unsigned long value) : value_(std::uint64_t{value}) {}
Json::Json(long long value) : value_(std::int64_t{value}) {}
Json::Json(unsigned long long value) : value_(std::uint64_t{value}) {}
Json::Json(double value) : value_(value) {}
Json::Json(const char* value) : Json(std::string(value)) {}
Json::Json(std::string_view value) : Json(std::string(value)) {}
Json::Json(std::string value) : value_(as_utf8(std::move(value))) {}
Json::Json(Array values) : value_(std::move(values)) {}
Json::Json(Object fields) : value_(std::move(fields)) {}

Json::Json(std::initializer_list<Json> values) {
  if (!std::ranges::all_of(values, is_field)) {
    value_ = Array(values);
    return;
  }
  Object fields;
  for (const Json& field : values) fields.emplace(field[0].get<std::string>(), field[1]);
  value_ = std::move(fields);
}

Json Json::array(std::initializer_list<Json> values) { return Json(Array(values)); }
Json Json::object() { return Json(Object()); }
Json Json::parse(std::string_view text) { return from_nlohmann(nlohmann::json::parse(text)); }

Json::Json(const Json&) = default;
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(const Json&) = default;
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

bool Json::is_null() const { return std::holds_alternative<std::monostate>(value_); }
bool Json::is_boolean() const { return std::holds_alternative<bool>(value_); }
bool Json::is_number() const {
  return is_number_integer() || std::holds_alternative<double>(value_);
}
bool Json::is_number_integer() const {
  return std::holds_alternative<std::int64_t>(value_) || is_number_unsigned();
}
bool Json::is_number_unsigned() const { return std::holds_alternative<std::uint64_t>(value_); }
bool Json::is_string() const { return std::holds_alternative<std::string>(value_); }
bool Json::is_array() const { return std::holds_alternative<Array>(value_); }
bool Json::is_object() const { return std::holds_alternative<Object>(value_); }

const char* Json::type_name() const {
  constexpr const char* kNames[] = {"null",   "boolean", "number", "number",
                                    "number", "string",  "array",  "object"};
  return kNames[value_.index()];
}

void Json::read(bool& result) const {
  if (!is_boolean()) wrong_type(*this, "true or false");
  result = std::get<bool>(value_);
}

void Json::read(std::string& result) const {
  if (!is_string()) wrong_type(*this, "a text");
  result = std::get<std::string>(value_);
}

void Json::read(double& result) const { read_number(*this, value_, result); }
void Json::read(std::int64_t& result) const { read_number(*this, value_, result); }
void Json::read(std::uint64_t& result) const {
  result = is_number_unsigned() ? std::get<std::uint64_t>(value_)
                                : static_cast<std::uint64_t>(get<std::int64_t>());
}
void Json::read(int& result) const { result = get<std::int64_t>(); }
void Json::read(unsigned& result) const { result = get<std::int64_t>(); }
void Json::read(float& result) const { result = get<double>(); }

std::size_t Json::size() const {
  if (is_null()) return 0;
  if (is_array()) return list().size();
  return is_object() ? items().size() : 1;
}

const Json::Array& Json::list() const {
  if (!is_array()) wrong_type(*this, "a list");
  return std::get<Array>(value_);
}

const Json& Json::at(std::size_t index) const { return list().at(index); }

Json& Json::operator[](std::size_t index) {
  if (!is_array()) wrong_type(*this, "a list");
  return std::get<Array>(value_).at(index);
}

const Json* Json::begin() const { return is_array() ? list().data() : nullptr; }
const Json* Json::end() const { return is_array() ? list().data() + list().size() : nullptr; }
Json* Json::begin() { return is_array() ? std::get<Array>(value_).data() : nullptr; }
Json* Json::end() { return is_array() ? begin() + size() : nullptr; }

void Json::push_back(Json value) {
  if (is_null()) value_ = Array();
  if (!is_array()) wrong_type(*this, "a list");
  std::get<Array>(value_).push_back(std::move(value));
}

const Json& Json::at(std::string_view key) const {
  const Json* found = find(key);
  if (found == nullptr) throw std::out_of_range(fmt::format("JSON: there is no field {}", key));
  return *found;
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = Object();
  if (!is_object()) wrong_type(*this, "an object");
  return std::get<Object>(value_)[std::string(key)];
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  const auto found = items().find(key);
  return found == items().end() ? nullptr : &found->second;
}

const Json::Object& Json::items() const {
  if (!is_object()) wrong_type(*this, "an object");
  return std::get<Object>(value_);
}

void Json::update(const Json& fields) {
  for (const auto& [key, value] : fields.items()) (*this)[key] = value;
}

void Json::erase(std::string_view key) {
  if (!is_object()) wrong_type(*this, "an object");
  std::get<Object>(value_).erase(std::string(key));
}

std::string Json::dump(int indent) const {
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;  // in the names of fields
  return to_nlohmann(*this).dump(indent, ' ', false, kReplace);
}

bool operator==(const Json& a, const Json& b) {
  if (a.value_.index() == b.value_.index()) return a.value_ == b.value_;
  if (!a.is_number() || !b.is_number()) return false;
  if (!a.is_number_integer() || !b.is_number_integer()) return a.get<double>() == b.get<double>();
  return a.get<std::int64_t>() == b.get<std::int64_t>();
}

std::ostream& operator<<(std::ostream& stream, const Json& value) { return stream << value.dump(); }

}  // namespace specdec
