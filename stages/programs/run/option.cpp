#include "stages/programs/run/option.h"

#include <algorithm>
#include <charconv>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/utf8.h"
#include "stages/programs/run/stages.h"

namespace specdec {
namespace {

// The whole text as a number; nothing if it is anything else, or out of the type's range.
template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

// Sets a variable from its text.
struct TextSetter {
  const Option& option;
  int stage;
  std::string_view text;

  // "1,2,3", and nothing else.
  void operator()(std::vector<TokenId>* ids) const {
    ids->clear();
    for (std::size_t start = 0; start <= text.size();) {
      const std::size_t end = std::min(text.find(',', start), text.size());
      const std::string_view number = text.substr(start, end - start);
      const auto id = parse_number<TokenId>(number);
      if (!id) {
        fail("{}: {} is not a token id; give ids as 1,2,3", option.name(), in_quotes(number));
      }
      ids->push_back(*id);
      start = end + 1;
    }
  }

  // An empty text usually comes from an unset shell variable, so it does not mean the default.
  void operator()(std::string* value) const {
    if (text.empty()) fail("{} is empty; it takes {}", option.name(), option.value_name());
    *value = text;
  }

  void operator()(std::uint64_t* value) const {
    const auto number = parse_number<std::uint64_t>(text);
    if (!number) {
      fail("{} is {}; it takes a whole number from 0 to 2^64 - 1", option.name(), in_quotes(text));
    }
    *value = *number;
  }

  void operator()(const Integer& value) const {
    const auto number = parse_number<int>(text);
    if (!number || !value.range.has(*number)) {
      fail("{} is {}; it takes a whole number from {} to {}", option.name(), in_quotes(text),
           value.range.lowest, value.range.highest);
    }
    *value.number = *number;
  }

  void operator()(const Number& value) const { value.set(number_in(value.range)); }
  void operator()(const OptionalNumber& value) const { value.set(number_in(value.range)); }

  void operator()(const IntegerOrAuto& value) const {
    const std::string why = why_no_value(option, stage, option.name(), text);
    if (!why.empty()) fail("{}", why);
    *value.is_auto = text == kAuto;
    const auto number = *value.is_auto ? value.automatic : parse_number<int>(text);
    if (!number || !value.range.has(*number)) {
      fail("{} is {}; it takes a whole number from {} to {}{}", option.name(), in_quotes(text),
           value.range.lowest, value.range.highest,
           option.has_value(stage, kAuto) ? ", or auto" : "");
    }
    value.set(*number);
  }

  void operator()(const OneOf& value) const {
    const Named* found = find_named(value.choices, text);
    SPECDEC_CHECK(found != nullptr, "a choice of {}, not {}", option.name(), text);
    value.choose(found - value.choices.data());
  }

  template <typename Other>
  void operator()(const Other&) const {
    SPECDEC_CHECK(false, "a value of {} that is set from its text", option.name());
  }

 private:
  double number_in(const NumberRange& range) const {
    const auto number = parse_number<double>(text);
    if (!number) fail("{} is {}; it takes {}", option.name(), in_quotes(text), range.words());
    check_range(range, *number, option.name());
    return *number;
  }
};

// Those that have the value, among those that have the option; all of them if none has it.
Stages stages_with(const Option& option, std::string_view value) {
  if (const auto* number = std::get_if<IntegerOrAuto>(&option.value)) {
    return value == kAuto ? number->auto_stages : stages_from(0);
  }
  const auto* one_of = std::get_if<OneOf>(&option.value);
  const Named* choice = one_of == nullptr ? nullptr : find_named(one_of->choices, value);
  return choice == nullptr ? stages_from(0) : Stages{choice->since, choice->last};
}

std::string nearest_stage(int stage, const Stages& stages) {
  return stage_name(stage < stages.first ? stages.first : stages.last);
}

}  // namespace

std::string_view Option::name() const { return usage.substr(0, usage.find(' ')); }

std::string_view Option::value_name() const {
  const std::size_t space = usage.find(' ');
  return space == std::string_view::npos ? "" : usage.substr(space + 1);
}

std::string Option::field() const {
  std::string field(name().substr(2));
  std::ranges::replace(field, '-', '_');
  return field;
}

std::vector<std::string> Option::inputs() const {
  const auto is_path = [this](std::string_view kind) {
    return value_name().find(kind) != kind.npos;
  };
  if (traits.is_output || !(is_path("DIR") || is_path("FILE") || is_path("SHAPE"))) return {};
  if (const auto* texts = std::get_if<std::vector<std::string>*>(&value)) return **texts;
  if (const auto* several = std::get_if<Several>(&value)) {
    std::vector<std::string> all = *several->others;
    all.push_back(*several->first);
    return all;
  }
  return {*std::get<std::string*>(value)};
}

bool Option::has_value(int stage, std::string_view text) const {
  return why_no_value(*this, stage, name(), text).empty();
}

const Option* find_option(std::span<const Option> options, std::string_view name) {
  const auto found = std::ranges::find(options, name, &Option::name);
  return found == options.end() ? nullptr : &*found;
}

std::string why_no_option(const Option& option, int stage, std::string_view called) {
  const Stages& stages = option.traits.stages;
  if (stages.has(stage)) return "";
  return fmt::format("this stage has no {}; {} has it", called, nearest_stage(stage, stages));
}

std::string why_no_value(const Option& option, int stage, std::string_view called,
                         std::string_view value) {
  const Stages stages = stages_with(option, value);
  if (stages.has(stage)) return "";
  return fmt::format("this stage has no {} {}; {} has it", called, value,
                     nearest_stage(stage, stages));
}

void set_from_text(const Option& option, int stage, std::string_view text) {
  std::visit(TextSetter{option, stage, text}, option.value);
}

void set_from_texts(const Option& option, int stage, std::span<const std::string> texts) {
  const auto& several = std::get<Several>(option.value);
  if (texts.size() > 1 && !several.stages.has(stage)) {
    fail("{} is given {} times, and this stage takes one; {} takes several", option.name(),
         texts.size(), nearest_stage(stage, several.stages));
  }
  several.others->resize(texts.size() - 1);
  for (std::size_t i = 0; i < texts.size(); i++) {
    std::string* value = i == 0 ? several.first : &(*several.others)[i - 1];
    TextSetter{option, stage, texts[i]}(value);
  }
}

}  // namespace specdec
