#include "stages/programs/batch/request_fields.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/error.h"
#include "kernels/int_size.h"
#include "stages/programs/run/options.h"

namespace specdec {
namespace {

// Reads the field of an option into the option's variable. Each type of variable has an overload.
class FieldReader {
 public:
  FieldReader(const Option& option, int stage, const JsonObject& line)
      : option_(option), stage_(stage), line_(line), key_(option.field()) {}

  void operator()(bool* value) const { *value = *line_.boolean(key_); }
  void operator()(const Integer& value) const { *value.number = integer_in(value.range); }
  void operator()(const Number& value) const { value.set(number_in(value.range)); }
  void operator()(const OptionalNumber& value) const { value.set(number_in(value.range)); }
  void operator()(std::string* value) const { *value = some_text(line_, key_); }

  void operator()(const IntegerOrAuto& value) const {
    *value.is_auto = field() == kAuto;
    const std::string why = *value.is_auto ? why_no_value(option_, stage_, key_, kAuto) : "";
    if (!why.empty()) fail("{}: {}", line_.name(), why);
    value.set(*value.is_auto ? value.automatic : integer_in(value.range));
  }

  void operator()(std::uint64_t* value) const {
    if (!field().is_number_unsigned()) {
      line_.fail_type(key_, "a whole number from 0 to 2^64 - 1");
    }
    *value = field().get<std::uint64_t>();
  }

  void operator()(const Several&) const {
    SPECDEC_CHECK(false, "{} of a program, not of a request", key_);
  }

  void operator()(const GivenText& value) const {
    *value.text = some_text(line_, key_);
    *value.given = true;
  }

  // A single text counts as a list of one text.
  void operator()(std::vector<std::string>* value) const {
    if (field().is_string()) {
      value->assign(1, field().get<std::string>());
    } else if (field().is_array() && std::ranges::all_of(field(), &Json::is_string)) {
      *value = field().get<std::vector<std::string>>();
    } else {
      line_.fail_type(key_, "a text or a list of texts");
    }
    if (std::ranges::find(*value, "") != value->end()) {
      fail("{}: {} is empty", line_.name(), key_);
    }
  }

  void operator()(std::vector<TokenId>* value) const {
    value->clear();
    for (const Json& id : some_list(line_, key_, "a list of token ids")) {
      const std::optional<int> number = as_int(id);
      if (!number) {
        fail("{}: {}[{}] is {}; it must be a token id", line_.name(), key_, value->size(),
             excerpt(id));
      }
      value->push_back(*number);
    }
  }

  void operator()(const OneOf& value) const {
    const bool is_word = field().is_boolean() && find_named(value.choices, field().dump());
    const std::string name = is_word ? field().dump() : some_text(line_, key_);
    const Named* found = find_named(value.choices, name);
    if (found == nullptr) {
      fail("{}: {} is {}; it takes one of {}", line_.name(), key_, excerpt(field()),
           names_in(value.choices));
    }
    value.choose(static_cast<std::size_t>(found - value.choices.data()));
  }

 private:
  const Json& field() const { return *line_.find(key_); }

  int integer_in(const IntegerRange& range) const {
    const int number = *line_.integer(key_);
    if (!range.has(number)) {
      fail("{}: {} is {}; it takes a whole number from {} to {}", line_.name(), key_, number,
           range.lowest, range.highest);
    }
    return number;
  }

  double number_in(const NumberRange& range) const {
    const double number = *line_.number(key_);
    check_range(range, number, fmt::format("{}: {}", line_.name(), key_));
    return number;
  }

  const Option& option_;
  int stage_;
  const JsonObject& line_;
  std::string key_;
};

}  // namespace

void read_option_field(const Option& option, int stage, const JsonObject& line) {
  std::visit(FieldReader(option, stage, line), option.value);
}

const Json& some_list(const JsonObject& line, const std::string& key, std::string_view wanted) {
  const Json& list = *line.find(key);
  if (!list.is_array()) line.fail_type(key, wanted);
  if (list.empty()) fail("{}: {} is empty", line.name(), key);
  return list;
}

std::string some_text(const JsonObject& line, const std::string& key) {
  std::string text = *line.string(key);
  if (text.empty()) fail("{}: {} is empty", line.name(), key);
  return text;
}

namespace {

bool is_of_name(char c) { return c == '-' || (c >= 'a' && c <= 'z'); }

// Of an option that a request may have: its field. "" of any other.
std::string field_named(std::string_view option) {
  static RunOptions unused;
  static const std::vector<Option> declared = all_options(kFirstBatchStage, unused);
  const Option* found = find_option(declared, option);
  return found != nullptr && found->traits.per_request ? found->field() : "";
}

}  // namespace

std::string with_field_names(std::string message) {
  for (std::size_t at = 0; (at = message.find("--", at)) != std::string::npos;) {
    const auto from = message.begin() + at;
    const auto end = std::find_if_not(from, message.end(), is_of_name);
    const std::string field = field_named(std::string_view(from, end));
    at += field.empty() ? end - from : int_size(field);
    if (!field.empty()) message.replace(from, end, field);
  }
  return message;
}

std::string field_in(std::string_view message) {
  if (!message.starts_with("--")) return "";
  const auto end = std::ranges::find_if_not(message, is_of_name);
  return field_named(std::string_view(message.begin(), end));
}

}  // namespace specdec
