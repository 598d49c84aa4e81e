#include "common/tokenizer/regex_translation.h"

#include <array>
#include <cctype>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/base/error.h"
#include "common/base/utf8.h"
#include "common/tokenizer/unicode.h"

namespace specdec {
namespace {

// A pattern under construction: syntax for PCRE2, with sets of characters in between.
class KindPattern {
 public:
  // origin: the byte of the split pattern from which this is translated.
  void add_syntax(std::string_view syntax, std::size_t origin) {
    items_.push_back({std::string(syntax), 0, origin});
  }
  void add_set(CodePointSet set, std::size_t origin) {
    const auto [known, is_new] = numbers_.emplace(std::move(set), sets_.size());
    if (is_new) sets_.push_back(known->first);
    items_.push_back({"", known->second, origin});
  }
  // `pattern` is the whole split pattern.
  TranslatedRegex finish(std::string_view pattern) const;

 private:
  struct Item {
    std::string syntax;  // empty: the set
    std::size_t set;
    std::size_t origin;
  };
  std::vector<Item> items_;
  std::vector<CodePointSet> sets_;  // each once
  std::map<CodePointSet, std::size_t> numbers_;
};

// A regex class that matches the bytes of these kinds.
std::string class_of(const std::vector<std::uint8_t>& kinds) {
  if (kinds.empty()) return fmt::format("\\x{:02x}", CharacterKinds::kNone);
  std::string members;
  for (const std::uint8_t kind : kinds) members += fmt::format("\\x{:02x}", kind);
  return kinds.size() == 1 ? members : "[" + members + "]";
}

TranslatedRegex KindPattern::finish(std::string_view pattern) const {
  TranslatedRegex translated{CharacterKinds(sets_, in_quotes(pattern)), "", {}};
  std::vector<std::string> classes;
  for (const CodePointSet& set : sets_) {
    classes.push_back(class_of(translated.kinds.kinds_in(set)));
  }
  for (const Item& item : items_) {
    translated.pattern += item.syntax.empty() ? classes[item.set] : item.syntax;
    translated.origin.resize(translated.pattern.size(), item.origin);
  }
  translated.origin.push_back(pattern.size());
  return translated;
}

CodePointSet one_character(char32_t c) { return CodePointSet({{c, c}}); }

bool is_ascii_letter(char32_t c) { return c < 0x80 && std::isalpha(c) != 0; }

// The set, with its ASCII letters in both cases. Two letters have a third form: the long s and the
// Kelvin sign.
CodePointSet with_other_case(const CodePointSet& set) {
  std::vector<CodePointRange> all = set.ranges();
  for (char32_t c = 0; c < 0x80; ++c) {
    if (!is_ascii_letter(c) || !set.contains(c)) continue;
    all.push_back({c ^ 0x20, c ^ 0x20});
    if ((c | 0x20) == U's') all.push_back({0x17F, 0x17F});
    if ((c | 0x20) == U'k') all.push_back({0x212A, 0x212A});
  }
  return CodePointSet(std::move(all));
}

// Pairs of ASCII letters to which a single character folds, such as the ligature U+FB01 to "fi".
// In Oniguruma, (?i:fi) matches this ligature.
bool folds_from_one_character(char32_t first, char32_t second) {
  static const std::set<std::string_view> pairs = {"ss", "ff", "fi", "fl", "st"};
  const std::array<char, 2> lower = {static_cast<char>(std::tolower(static_cast<int>(first))),
                                     static_cast<char>(std::tolower(static_cast<int>(second)))};
  return pairs.count(std::string_view(lower.data(), 2)) > 0;
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  TranslatedRegex run() {
    while (!at_end()) item();
    // Unbalanced parentheses and dangling quantifiers are left for PCRE2 to report.
    return out_.finish(pattern_);
  }

 private:
  bool at_end() const { return position_ == pattern_.size(); }
  char peek() const { return at_end() ? '\0' : pattern_[position_]; }
  bool next_is(std::string_view text) const {
    return pattern_.substr(position_, text.size()) == text;
  }
  void copy(std::size_t bytes) { replace(bytes, pattern_.substr(position_, bytes)); }
  void replace(std::size_t bytes, std::string_view syntax) {
    out_.add_syntax(syntax, position_);
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
  void atom();
  CodePointSet escape();
  CodePointSet property();
  char32_t hexadecimal();
  char32_t character();
  void character_class();
  CodePointSet in_both_cases(const CodePointSet& set) const;
  void class_member(std::vector<CodePointRange>& members);
  char32_t class_character();
  bool begins_set() const;

  std::string_view pattern_;
  std::size_t position_ = 0;
  KindPattern out_;
  std::vector<bool> ignores_case_;  // one for each open group
  char32_t previous_letter_ = 0;    // the literal before this one, if case is ignored
};

void Translator::item() {
  const char32_t previous = previous_letter_;
  previous_letter_ = 0;
  switch (peek()) {
    case '(':
      return open_group();
    case ')':
      return close_group();
    case '[':
      return character_class();
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
      return copy(1);
    default:
      previous_letter_ = previous;
      return atom();
  }
}

void Translator::open_group() {
  static constexpr std::array<std::string_view, 7> kSame = {
      "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};
  for (const std::string_view opening : kSame) {
    if (!next_is(opening)) continue;
    const bool case_ends = opening == "(?i:";  // the sets contain both cases instead
    ignores_case_.push_back(ignores_case() || case_ends);
    return replace(opening.size(), case_ends ? "(?:" : opening);
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
  const bool lazy_or_possessive = next_is("*?") || next_is("*+") || next_is("+?") ||
                                  next_is("++") || next_is("??") || next_is("?+");
  copy(lazy_or_possessive ? 2 : 1);
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

// A character, the dot, or an escape.
void Translator::atom() {
  const std::size_t origin = position_;
  if (begins_set()) {
    previous_letter_ = 0;
    return out_.add_set(escape(), origin);
  }
  if (peek() == '.') {
    ++position_;
    previous_letter_ = 0;
    return out_.add_set(one_character(U'\n').complement(), origin);
  }
  const char32_t c = character();
  if (!ignores_case()) return out_.add_set(one_character(c), origin);
  if (c >= 0x80) refuse("a character beyond ASCII under (?i:");
  if (folds_from_one_character(previous_letter_, c)) {
    refuse("two letters under (?i: that are also one character");
  }
  previous_letter_ = c;
  out_.add_set(with_other_case(one_character(c)), origin);
}

bool Translator::begins_set() const {
  return peek() == '\\' && position_ + 1 < pattern_.size() &&
         std::string_view("sSdpP").find(pattern_[position_ + 1]) != std::string_view::npos;
}

// An escape that means several characters. REQUIRES: begins_set().
CodePointSet Translator::escape() {
  const char c = pattern_[position_ + 1];
  if (c == 'p' || c == 'P') return property();
  position_ += 2;
  if (c == 'd') return *unicode_property("Nd");
  return c == 's' ? unicode_white_space() : unicode_white_space().complement();
}

// \p{Name}, \P{Name} or \p{^Name}.
CodePointSet Translator::property() {
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
  const std::optional<CodePointSet> found = unicode_property(name);
  if (!found) refuse("the property " + in_quotes(name));
  position_ = close + 1;
  return negated ? found->complement() : *found;
}

// One character, as itself or escaped.
char32_t Translator::character() {
  if (peek() != '\\') {
    const Utf8Step step = next_utf8(pattern_.substr(position_));
    position_ += step.length;
    return step.character;
  }
  const char c = position_ + 1 < pattern_.size() ? pattern_[position_ + 1] : '\0';
  if (c == 'u' || c == 'x') return hexadecimal();
  constexpr std::string_view kLetters = "rntfaev";
  constexpr std::string_view kMeanings = "\r\n\t\f\a\x1b\v";
  const std::size_t letter = kLetters.find(c);
  if (letter == std::string_view::npos &&
      (c == '\0' || std::isalnum(static_cast<unsigned char>(c)))) {
    refuse("the escape \\" + std::string(1, c == '\0' ? ' ' : c));
  }
  if (static_cast<unsigned char>(c) >= 0x80) refuse("a backslash before a character beyond ASCII");
  position_ += 2;
  return static_cast<unsigned char>(letter == std::string_view::npos ? c : kMeanings[letter]);
}

// \xHH, \x{H...} or \uHHHH.
char32_t Translator::hexadecimal() {
  const bool braces = next_is("\\x{");
  const std::size_t begin = position_ + (braces ? 3 : 2);
  const std::size_t most = braces ? 8 : next_is("\\u") ? 4 : 2;
  std::size_t digits = 0;
  while (begin + digits < pattern_.size() && digits < most &&
         std::isxdigit(static_cast<unsigned char>(pattern_[begin + digits]))) {
    ++digits;
  }
  const std::size_t end = begin + digits;
  const bool complete = braces ? digits > 0 && pattern_.substr(end, 1) == "}" : digits == most;
  if (!complete) refuse("an incomplete hexadecimal escape");
  const unsigned long value = std::stoul(std::string(pattern_.substr(begin, digits)), nullptr, 16);
  if (value > kLastCodePoint || (value >= 0xD800 && value < 0xE000)) {
    refuse("a hexadecimal escape that is no character");
  }
  // \x80 to \xff are bytes, not characters, to Oniguruma.
  if (!braces && next_is("\\x") && value >= 0x80) refuse("a byte escape above \\x7f");
  if (ignores_case()) refuse("a hexadecimal escape under (?i:");
  position_ = end + (braces ? 1 : 0);
  return value;
}

void Translator::character_class() {
  const std::size_t origin = position_++;
  const bool negated = peek() == '^';
  if (negated) ++position_;
  if (peek() == ']') refuse("a class that begins with ]");
  std::vector<CodePointRange> members;
  while (!at_end() && peek() != ']') class_member(members);
  if (at_end()) refuse("a class without its ]");
  CodePointSet set(std::move(members));
  if (ignores_case()) set = in_both_cases(set);
  ++position_;
  out_.add_set(negated ? set.complement() : set, origin);
}

// Oniguruma treats a class of one character as a literal. Other classes also match what their
// members fold to, which may be several characters. For ASCII and white space there is no
// difference.
CodePointSet Translator::in_both_cases(const CodePointSet& set) const {
  const CodePointRange& first = set.ranges().front();
  if (set.ranges().size() == 1 && first.first == first.last) {
    refuse("a class of one character under (?i:");
  }
  std::vector<CodePointRange> allowed = unicode_white_space().ranges();
  allowed.push_back({0, 0x7F});
  std::vector<CodePointRange> both = allowed;
  both.insert(both.end(), set.ranges().begin(), set.ranges().end());
  if (CodePointSet(both) != CodePointSet(allowed)) refuse("a class beyond ASCII under (?i:");
  return with_other_case(set);
}

// A character, a range, or an escape that means several characters.
void Translator::class_member(std::vector<CodePointRange>& members) {
  if (begins_set()) {
    const CodePointSet set = escape();
    members.insert(members.end(), set.ranges().begin(), set.ranges().end());
    return;
  }
  const bool dash = peek() == '-';  // where a member begins, it is a literal
  const char32_t first = class_character();
  char32_t last = first;
  if (!dash && peek() == '-' && !next_is("-]")) {
    ++position_;
    if (begins_set() || at_end()) refuse("a range that ends in no character");
    last = class_character();
    if (last < first) refuse("a range that ends before it begins");
  }
  members.push_back({first, last});
}

char32_t Translator::class_character() {
  if (peek() == '[') refuse("a [ inside a class");
  if (next_is("&&")) refuse("an intersection of classes");
  return character();
}

}  // namespace

TranslatedRegex translate_regex(std::string_view pattern) { return Translator(pattern).run(); }

TranslatedRegex translate_literal(std::string_view literal) {
  KindPattern out;
  for (std::size_t at = 0; at < literal.size();) {
    const Utf8Step step = next_utf8(literal.substr(at));
    out.add_set(one_character(step.character), at);
    at += step.length;
  }
  return out.finish(literal);
}

}  // namespace specdec
