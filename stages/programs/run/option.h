#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/number_range.h"
#include "common/base/token_id.h"
#include "stages/programs/run/choices.h"

namespace specdec {

// An option of a command line, declared once. The line in --help, the message of a stage that lacks
// the option, and the field of a request line follow from the declaration: see command_line.h and
// request_list.h.

struct Stages {
  int first = 1;
  int last = std::numeric_limits<int>::max();

  bool has(int stage) const { return first <= stage && stage <= last; }
};

constexpr Stages stages_from(int first) { return {.first = first}; }

struct IntegerRange {
  int lowest = std::numeric_limits<int>::min();
  int highest = std::numeric_limits<int>::max();

  bool has(int number) const { return number >= lowest && number <= highest; }
  bool operator==(const IntegerRange&) const = default;
};

struct Integer {
  int* number;
  IntegerRange range = {};
};

struct Number {
  double* number;
  NumberRange range;

  void set(double value) const { *number = value; }
};

// A number that may be absent.
struct OptionalNumber {
  std::optional<double>* number;
  NumberRange range;

  void set(double value) const { *number = value; }
};

inline constexpr std::string_view kAuto = "auto";

// A number, or the word "auto", which means the number `automatic`. A number counts as given even
// if it is the default.
struct IntegerOrAuto {
  int* number;
  IntegerRange range;
  bool* is_auto;
  int automatic;
  Stages auto_stages = {};  // that have the word
  bool* given = nullptr;

  void set(int value) const {
    *number = value;
    if (given != nullptr) *given = !*is_auto;
  }
};

// A text that counts as given even if it is empty.
struct GivenText {
  std::string* text;
  bool* given;
};

// A text, and in some stages more texts, if the option is given again.
struct Several {
  std::string* first;
  std::vector<std::string>* others;
  Stages stages;  // where it may be given again
};

// The choices that an option offers.
template <typename Table>
std::vector<Named> choices_in(const Table& table) {
  std::vector<Named> choices;
  for (const auto& entry : table) {
    Named& choice = choices.emplace_back(Named{entry.name, entry.summary});
    if constexpr (requires { entry.since; }) choice.since = entry.since;
    if constexpr (requires { entry.last; }) choice.last = entry.last;
  }
  return choices;
}

struct OneOf {
  std::vector<Named> choices;
  std::size_t chosen;
  std::function<void(std::size_t)> choose;
};

template <typename Enum>
OneOf one_of(Enum* variable) {
  return {choices_in(table_of(*variable)), static_cast<std::size_t>(*variable),
          [variable](std::size_t i) { *variable = static_cast<Enum>(i); }};
}

// What an option takes, and the variable that it sets. The variable's initial value is the default.
using OptionValue = std::variant<bool*, Integer, IntegerOrAuto, std::uint64_t*, Number,
                                 OptionalNumber, std::string*, GivenText, Several,
                                 std::vector<std::string>*, std::vector<TokenId>*, OneOf>;

struct OptionTraits {
  Stages stages = {};
  std::string_view otherwise = "";  // the default in words, if the value does not show it
  bool per_request = false;         // lines of --requests may have it, too
  std::vector<std::string_view> excludes = {}, needs = {};  // other options, by name
  bool is_output = false;  // a file that is written when the work is done
  bool* given = nullptr;   // set to whether the option is on the command line
};

struct Option {
  std::string_view usage;  // its name, and the value's name in --help: "--page-size N"
  std::string help;
  OptionValue value;
  OptionTraits traits = {};

  std::string_view name() const;                           // "--page-size"
  std::string_view value_name() const;                     // "N"; "" if there is none
  std::string field() const;                               // "page_size", of a request line
  std::vector<std::string> inputs() const;                 // files and folders that it names
  bool has_value(int stage, std::string_view text) const;  // whether the stage has it
};

// nullptr if there is no such option.
const Option* find_option(std::span<const Option> options, std::string_view name);

// Why a stage does not take an option, or a value of one: a sentence that names a stage that does.
// "" if the stage takes it. `called` is the option's name, or its field.
std::string why_no_option(const Option& option, int stage, std::string_view called);
std::string why_no_value(const Option& option, int stage, std::string_view called,
                         std::string_view value);

// Sets the variable from a text. Throws Error if the option does not take this text.
// REQUIRES: the value is of a type that TextSetter knows (option.cpp); the text for a OneOf is one
// of the names.
void set_from_text(const Option& option, int stage, std::string_view text);

// The same for all texts of an option whose value is Several. Throws Error also if there is more
// than one and the stage takes only one.
void set_from_texts(const Option& option, int stage, std::span<const std::string> texts);

}  // namespace specdec
