#include "common/tokenizer/regex_translation.h"

#include <array>
#include <cctype>
#include <set>
#include <vector>

#include "common/base/error.h"
#include "common/base/utf8.h"
#include "common/tokenizer/unicode_16.h"

namespace specdec {
namespace {

// Unicode's White_Space and its complement, as members of a class.
constexpr std::string_view kSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNoSpace =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff})"
    R"(\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

// General categories. Script names go through another door: see property().
const std::set<std::string_view>& categories() {
  static const std::set<std::string_view> names = {
      "C",  "Cc", "Cf", "Cn", "Co", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",
      "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf",
      "Pi", "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};
  return names;
}

const std::set<std::string_view>& scripts() {
  static const std::set<std::string_view> names = {
      "Arabic", "Armenian", "Bengali",  "Cyrillic", "Devanagari", "Georgian", "Greek", "Han",
      "Hangul", "Hebrew",   "Hiragana", "Katakana", "Latin",      "Tamil",    "Thai",  "Tibetan"};
  return names;
}

// Pairs of ASCII letters that one character folds to (the ligature U+FB01 to "fi"): Oniguruma
// matches it where (?i:fi) stands, PCRE2 does not.
bool folds_from_one_character(char first, char second) {
  static const std::set<std::string_view> pairs = {"ss", "ff", "fi", "fl", "st"};
  const std::array<char, 2> lower = {static_cast<char>(std::tolower(first)),
                                     static_cast<char>(std::tolower(second))};
  return pairs.count(std::string_view(lower.data(), 2)) > 0;
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (!at_end()) item();
    // Unbalanced parentheses and dangling quantifiers are left for PCRE2 to report.
    return std::move(out_);
  }

 private:
  bool at_end() const { return position_ == pattern_.size(); }
  char peek() const { return at_end() ? '\0' : pattern_[position_]; }
  bool next_is(std::string_view text) const {
    return pattern_.substr(position_, text.size()) == text;
  }
  void copy(std::size_t bytes) {
    out_ += pattern_.substr(position_, bytes);
    position_ += bytes;
  }
  void replace(std::size_t bytes, std::string_view text) {
    out_ += text;
    position_ += bytes;
  }
  [[noreturn]] void refuse(std::string_view what) const {
    fail("the split pattern {} has {} at byte {}, which specdec does not support",
         in_quotes(pattern_), what, position_);
  }
  bool ignores_case() const { return !ignores_case_.empty() && ignores_case_.back(); }

  void item();
  void open_group();
  void close_group();
  void quantifier();
  void counted_quantifier();
  void literal();
  void escape(bool in_class);
  void property(bool in_class);
  void hexadecimal();
  void character_class();
  void class_member();
  void class_character();
  bool begins_set() const;

  std::string_view pattern_;
  std::size_t position_ = 0;
  std::string out_;
  std::vector<bool> ignores_case_;  // by open group
  char previous_letter_ = '\0';     // the literal before this one, where case is ignored
};

void Translator::item() {
  const char c = peek();
  const char previous = previous_letter_;
  previous_letter_ = '\0';
  switch (c) {
    case '(':
      return open_group();
    case ')':
      return close_group();
    case '[':
      return character_class();
    case '\\':
      return escape(/*in_class=*/false);
    case '*':
    case '+':
    case '?':
      return quantifier();
    case '{':
      return counted_quantifier();
    case '^':
    case '$':
      refuse("an anchor");
    case '|':
    case '.':
      return copy(1);
    default:
      previous_letter_ = previous;
      return literal();
  }
}

void Translator::open_group() {
  static constexpr std::array<std::string_view, 7> kSame = {
      "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};
  for (const std::string_view opening : kSame) {
    if (!next_is(opening)) continue;
    ignores_case_.push_back(ignores_case() || opening == "(?i:");
    return copy(opening.size());
  }
  if (next_is("(?") || next_is("(*")) {
    refuse("a group that begins with " + in_quotes(pattern_.substr(position_, 3)));
  }
  ignores_case_.push_back(ignores_case());
  replace(1, "(?:");  // nothing refers back to it
}

void Translator::close_group() {
  if (!ignores_case_.empty()) ignores_case_.pop_back();
  copy(1);
}

void Translator::quantifier() {
  copy(1);
  if (peek() == '?' || peek() == '+') copy(1);
}

void Translator::counted_quantifier() {
  const std::size_t close = pattern_.find('}', position_);
  const std::string_view body =
      pattern_.substr(position_ + 1, close == std::string_view::npos ? 0 : close - position_ - 1);
  const bool range = body.find(',') != std::string_view::npos;
  if (body.empty() || body.find_first_not_of("0123456789,") != std::string_view::npos) {
    refuse("a brace that is no {n}, {n,} or {n,m}");
  }
  if (body.front() == ',') refuse("a quantifier without a lower bound");
  copy(body.size() + 2);
  if (peek() == '+') refuse("{n,m} followed by +");
  if (peek() == '?' && !range) refuse("{n} followed by ?");
  if (peek() == '?') copy(1);
}

void Translator::literal() {
  const Utf8Step step = next_utf8(pattern_.substr(position_));
  if (ignores_case()) {
    if (step.length > 1) refuse("a character beyond ASCII under (?i:");
    if (folds_from_one_character(previous_letter_, peek())) {
      refuse("two letters under (?i: that are also one character");
    }
    previous_letter_ = peek();
  }
  copy(step.length);
}

void Translator::escape(bool in_class) {
  const char c = position_ + 1 < pattern_.size() ? pattern_[position_ + 1] : '\0';
  const auto in_brackets = [&](std::string_view members, bool negated = false) {
    if (in_class) return replace(2, members);
    replace(2, (negated ? "[^" : "[") + std::string(members) + "]");
  };
  switch (c) {
    case 's':
      return in_brackets(kSpace);
    case 'S':
      return in_brackets(kNoSpace);
    case 'p':
    case 'P':
      return property(in_class);
    case 'u':
    case 'x':
      return hexadecimal();
    case 'v':
      return replace(2, "\\x{b}");
    case 'd':
      return in_brackets("\\p{Nd}" + std::string(characters_new_in_unicode_16("Nd")));
    default:
      break;
  }
  constexpr std::string_view kSame = "rntfae";
  if (kSame.find(c) != std::string_view::npos) return copy(2);
  if (c == '\0' || std::isalnum(static_cast<unsigned char>(c))) {
    refuse("the escape \\" + std::string(1, c == '\0' ? ' ' : c));
  }
  if (static_cast<unsigned char>(c) >= 0x80) refuse("a backslash before a character beyond ASCII");
  copy(2);
}

// \p{Name}, \P{Name} or \p{^Name}.
void Translator::property(bool in_class) {
  if (ignores_case()) refuse("a property under (?i:");
  const std::size_t close = pattern_.find('}', position_);
  if (pattern_.substr(position_ + 2, 1) != "{" || close == std::string_view::npos) {
    refuse("a property without braces");
  }
  std::string_view name = pattern_.substr(position_ + 3, close - position_ - 3);
  bool negated = pattern_[position_ + 1] == 'P';
  if (!name.empty() && name.front() == '^') {
    negated = !negated;
    name.remove_prefix(1);
  }
  const bool script = scripts().count(name) > 0;
  if (!script && categories().count(name) == 0) refuse("the property " + in_quotes(name));
  const std::string_view added = characters_new_in_unicode_16(name);
  if (added.empty()) {
    // \p{Han} alone would mean Script_Extensions.
    out_ += fmt::format("\\{}{{{}{}}}", negated ? 'P' : 'p', script ? "sc:" : "", name);
  } else if (in_class) {
    if (negated) refuse("\\P{" + std::string(name) + "} in a class");
    out_ += fmt::format("\\p{{{}}}{}", name, added);
  } else {
    out_ += fmt::format("[{}\\p{{{}}}{}]", negated ? "^" : "", name, added);
  }
  position_ = close + 1;
}

// \xHH, \x{H...} or \uHHHH.
void Translator::hexadecimal() {
  const bool braces = next_is("\\x{");
  const std::size_t begin = position_ + (braces ? 3 : 2);
  std::size_t digits = 0;
  while (begin + digits < pattern_.size() && digits < 8 &&
         std::isxdigit(static_cast<unsigned char>(pattern_[begin + digits]))) {
    ++digits;
    if (!braces && digits == (next_is("\\u") ? 4u : 2u)) break;
  }
  const std::size_t end = begin + digits;
  const bool complete =
      braces ? digits > 0 && pattern_.substr(end, 1) == "}" : digits == (next_is("\\u") ? 4u : 2u);
  if (!complete) refuse("an incomplete hexadecimal escape");
  const unsigned long value = std::stoul(std::string(pattern_.substr(begin, digits)), nullptr, 16);
  // \x80 to \xff are bytes, not characters, to Oniguruma.
  if (!braces && next_is("\\x") && value >= 0x80) refuse("a byte escape above \\x7f");
  if (ignores_case()) refuse("a hexadecimal escape under (?i:");
  replace(end - position_ + (braces ? 1 : 0), fmt::format("\\x{{{:x}}}", value));
}

void Translator::character_class() {
  if (ignores_case()) refuse("a class under (?i:");
  copy(1);
  if (peek() == '^') copy(1);
  if (peek() == ']') refuse("a class that begins with ]");
  while (!at_end() && peek() != ']') class_member();
  if (at_end()) refuse("a class without its ]");
  copy(1);
}

// A character, a range, or an escape that stands for a set of characters.
void Translator::class_member() {
  const bool set = begins_set();
  if (peek() == '-') return replace(1, "\\-");  // it joins nothing where a member could begin
  class_character();
  if (set || peek() != '-' || next_is("-]")) return;
  copy(1);
  if (begins_set() || at_end()) refuse("a range that ends in no character");
  class_character();
}

bool Translator::begins_set() const {
  return peek() == '\\' && position_ + 1 < pattern_.size() &&
         std::string_view("sSdpP").find(pattern_[position_ + 1]) != std::string_view::npos;
}

void Translator::class_character() {
  if (peek() == '[') refuse("a [ inside a class");
  if (next_is("&&")) refuse("an intersection of classes");
  if (peek() == '\\') return escape(/*in_class=*/true);
  copy(next_utf8(pattern_.substr(position_)).length);
}

}  // namespace

std::string translate_regex(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace specdec
