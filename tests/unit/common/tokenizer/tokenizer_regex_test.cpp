#include <string>
#include <utility>
#include <vector>

#include "common/tokenizer/regex_translation.h"
#include "common/tokenizer/split_regex.h"
#include "common/tokenizer/unicode.h"
#include "tests/test_support.h"
#include "tests/unit/common/tokenizer/tokenizer_builder.h"
#include "tests/unit/common/tokenizer/tokenizer_random_text.h"

namespace specdec {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(const SplitRegex& regex, std::string_view text) {
  Pieces pieces;
  regex.split(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

Pieces split(std::string_view pattern, std::string_view text) {
  return split(SplitRegex::from_pattern(pattern), text);
}

// Llama 3's pattern without a regular expression: at each position the first rule that applies.
class HandScanner {
 public:
  Pieces scan(std::string_view text) {
    characters_.clear();
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Step step = next_utf8(text.substr(at));
      const std::string bytes(text.substr(at, step.length));
      characters_.push_back({step.character, bytes, letter_.contains(step.character),
                             number_.contains(step.character)});
      at += step.length;
    }
    Pieces pieces;
    for (std::size_t at = 0; at < characters_.size();) {
      std::string piece;
      for (const std::size_t end = end_of_piece(at); at < end; ++at) piece += characters_[at].bytes;
      pieces.push_back(piece);
    }
    return pieces;
  }

 private:
  struct Character {
    char32_t code;
    std::string bytes;
    bool letter;
    bool number;
    bool space() const { return is_white_space(code); }
    bool line_end() const { return code == '\r' || code == '\n'; }
    bool other() const { return !letter && !number && !space(); }
    char folded() const {
      if (code == 0x17F) return 's';
      return code < 0x80 ? static_cast<char>(std::tolower(static_cast<int>(code))) : '\0';
    }
  };

  const Character* at(std::size_t i) const {
    return i < characters_.size() ? &characters_[i] : nullptr;
  }
  template <typename Test>
  std::size_t run(std::size_t i, Test test) const {
    while (at(i) != nullptr && test(*at(i))) ++i;
    return i;
  }

  std::size_t end_of_piece(std::size_t i) const {
    if (const std::size_t end = contraction(i); end > i) return end;
    const Character& first = characters_[i];
    const bool prefix = !first.line_end() && !first.letter && !first.number;
    const auto is_letter = [](const Character& c) { return c.letter; };
    if (const std::size_t end = run(i + prefix, is_letter); end > i + prefix) return end;
    if (first.number) {
      return std::min(i + 3, run(i, [](const Character& c) { return c.number; }));
    }
    const auto is_other = [](const Character& c) { return c.other(); };
    const std::size_t others = i + (first.code == ' ');
    if (const std::size_t end = run(others, is_other); end > others) {
      return run(end, [](const Character& c) { return c.line_end(); });
    }
    return end_of_space(i);
  }

  std::size_t contraction(std::size_t i) const {
    if (characters_[i].code != '\'' || at(i + 1) == nullptr) return i;
    const std::string one(1, at(i + 1)->folded());
    if (one == "s" || one == "t" || one == "m" || one == "d") return i + 2;
    if (at(i + 2) == nullptr) return i;
    const std::string two = one + at(i + 2)->folded();
    return two == "re" || two == "ve" || two == "ll" ? i + 3 : i;
  }

  std::size_t end_of_space(std::size_t i) const {
    const std::size_t end = run(i, [](const Character& c) { return c.space(); });
    for (std::size_t last = end; last > i; --last) {
      if (characters_[last - 1].line_end()) return last;
    }
    return end == characters_.size() || end == i + 1 ? end : end - 1;
  }

  CodePointSet letter_ = *unicode_property("L");
  CodePointSet number_ = *unicode_property("N");
  std::vector<Character> characters_;
};

TEST(TokenizerRegexTest, Llama3PatternEqualsAHandScanner) {
  const SplitRegex regex = SplitRegex::from_pattern(kLlama3Pattern);
  HandScanner scanner;
  RandomText random(3);
  for (int round = 0; round < 60000; ++round) {
    const std::string text = random.text(16);
    ASSERT_EQ(split(regex, text), scanner.scan(text)) << in_quotes(text);
  }
}

TEST(TokenizerRegexTest, WhiteSpaceIsUnicodesAndNotPcres) {
  const CodePointSet space = unicode_white_space();
  for (char32_t c = 0; c <= kLastCodePoint; ++c) {
    ASSERT_EQ(space.contains(c), is_white_space(c)) << static_cast<unsigned>(c);
  }
  const std::string separator = "\xE1\xA0\x8E";  // U+180E, white space to PCRE2's \s
  EXPECT_EQ(split("\\s+", "a " + separator), (Pieces{"a", " ", separator}));
  EXPECT_EQ(split("[^\\s]+", "a" + separator), (Pieces{"a" + separator}));
  EXPECT_EQ(split("\\S+", "a" + separator), (Pieces{"a" + separator}));
}

// One character that Unicode 15 or 16 added to each property; PCRE2 10.42 has Unicode 14.
TEST(TokenizerRegexTest, PropertiesAreThoseOfUnicode16) {
  const std::vector<std::pair<const char*, char32_t>> added = {
      {"L", 0x31350},       {"Lu", 0xA7DA},    {"Ll", 0xA7CD},  {"Lo", 0x1E4D0}, {"Lm", 0x10D4E},
      {"LC", 0xA7DC},       {"M", 0x1E08F},    {"Mn", 0x0897},  {"Mc", 0x113B8}, {"N", 0x10D40},
      {"Nd", 0x11F50},      {"No", 0x1D2C0},   {"P", 0x1B4E},   {"Po", 0x11F43}, {"Pd", 0x10D6E},
      {"S", 0x1FABF},       {"So", 0x1CC00},   {"Sm", 0x10D8E}, {"Cf", 0x13439}, {"Han", 0x31350},
      {"Cyrillic", 0x1C89}, {"Garay", 0x10D40}};
  for (const auto& [name, code] : added) {
    std::string character;
    append_utf8(character, code);
    const std::string property = "\\p{" + std::string(name) + "}";
    const Pieces together{character + character};
    EXPECT_EQ(split(property + "+", character + character), together) << name;
    EXPECT_EQ(split("[" + property + "]+", character + character), together) << name;
    EXPECT_EQ(split("\\P{" + std::string(name) + "}+", character + "\t\t"),
              (name[0] == 'C' && name[1] == '\0' ? Pieces{character + "\t\t"}
                                                 : Pieces{character, "\t\t"}))
        << name;
    EXPECT_EQ(split("[^" + property + "\t]", "\t" + character), Pieces{"\t" + character}) << name;
  }
}

TEST(TokenizerRegexTest, WhatPassesMeansTheSame) {
  EXPECT_EQ(split("a|b", "xaby"), (Pieces{"x", "a", "b", "y"}));
  EXPECT_EQ(split("(a)(?:b)(?=c)(?!d)", "abcabd"), (Pieces{"ab", "cabd"}));
  EXPECT_EQ(split("(?<=a)b(?<!c)", "abcb"), (Pieces{"a", "b", "cb"}));
  EXPECT_EQ(split("(?>a+)b?", "aaab"), (Pieces{"aaab"}));
  EXPECT_EQ(split("(?>[ab]*|.)c", "ab c-"), (Pieces{"ab ", "c", "-"}));
  EXPECT_EQ(split("a{2}", "aaaaa"), (Pieces{"aa", "aa", "a"}));
  EXPECT_EQ(split("a{2,}?", "aaaaa"), (Pieces{"aa", "aa", "a"}));
  EXPECT_EQ(split("a{1,3}", "aaaaa"), (Pieces{"aaa", "aa"}));
  EXPECT_EQ(split("x*+y", "xxy"), (Pieces{"xxy"}));
  EXPECT_EQ(split(".+", "a\nb"), (Pieces{"a", "\n", "b"}));
  EXPECT_EQ(split(".+", "a\r\x0B\xC2\x85\xE2\x80\xA8"), (Pieces{"a\r\x0B\xC2\x85\xE2\x80\xA8"}));
  EXPECT_EQ(split("\\u4e2D|\\x{4E00}|\\x41", "A\xE4\xB8\xAD\xE4\xB8\x80"),
            (Pieces{"A", "\xE4\xB8\xAD", "\xE4\xB8\x80"}));
  EXPECT_EQ(split("\\v", "a\x0B\n"), (Pieces{"a", "\x0B", "\n"}));
  EXPECT_EQ(split("[\\]\\-a-c!-]+", "]-b!x"), (Pieces{"]-b!", "x"}));
  EXPECT_EQ(split("[\\s-x]+", " -xw"), (Pieces{" -x", "w"})) << "no range begins with a set";
  EXPECT_EQ(split("[\\d-]+|\\p{^L}", "1-a!"), (Pieces{"1-", "a", "!"}));
  EXPECT_EQ(split("\\P{L}+", "a12b"), (Pieces{"a", "12", "b"}));
  EXPECT_EQ(split("\\p{Lu}\\p{Ll}", "aBc"), (Pieces{"a", "Bc"}));
  // U+3001 is punctuation of several scripts, so it is no Han character by itself.
  EXPECT_EQ(split("\\p{Han}+", "\xE4\xB8\xAD\xE3\x80\x81"),
            (Pieces{"\xE4\xB8\xAD", "\xE3\x80\x81"}));
  EXPECT_EQ(split("\\.\\*\\\\", "a.*\\"), (Pieces{"a", ".*\\"}));
  EXPECT_EQ(split("(?i:'s|K)", "x'S\xE2\x84\xAA"), (Pieces{"x", "'S", "\xE2\x84\xAA"}));
}

TEST(TokenizerRegexTest, AnEmptyMatchCutsButIsNoPiece) {
  EXPECT_EQ(split("x*", "abxxc"), (Pieces{"a", "b", "xx", "c"}));
  EXPECT_EQ(split("(?=b)", "abab"), (Pieces{"a", "ba", "b"}));
  EXPECT_EQ(split("", "\xC3\xA9\xC3\xA9"), (Pieces{"\xC3\xA9", "\xC3\xA9"}));
  EXPECT_EQ(split("a*", ""), Pieces{});
}

TEST(TokenizerRegexTest, LiteralsAreNoPatterns) {
  EXPECT_EQ(split(SplitRegex::from_literal("a.b"), "xa.ba-b"), (Pieces{"x", "a.b", "a-b"}));
}

TEST(TokenizerRegexTest, RefusesByNameWhatDiffers) {
  const std::vector<std::pair<const char*, const char*>> refused = {
      {"^a", "an anchor at byte 0"},
      {"a$", "an anchor at byte 1"},
      {"\\ba", "the escape \\b at byte 0"},
      {"a\\h", "the escape \\h at byte 1"},
      {"\\w+", "the escape \\w"},
      {"(a)\\1", "the escape \\1"},
      {"\\Ga", "the escape \\G"},
      {"a\\", "the escape \\ "},
      {"(?<n>a)", "a group that begins with \"(?<\""},
      {"(?i)a", "a group that begins with \"(?i\""},
      {"(?m:a)", "a group that begins with \"(?m\""},
      {"(*ACCEPT)", "a group that begins with \"(*A\""},
      {"[[:alpha:]]", "a [ inside a class"},
      {"[a&&b]", "an intersection of classes"},
      {"[]a]", "a class that begins with ]"},
      {"[^]a]", "a class that begins with ]"},
      {"[ab", "a class without its ]"},
      {"[a-\\s]", "a range that ends in no character"},
      {"a{,3}", "a quantifier without a lower bound"},
      {"a{2}?", "{n} followed by ?"},
      {"a{2,3}+", "{n,m} followed by +"},
      {"a{x}", "a brace that is no {n}"},
      {"a{2", "a brace that is no {n}"},
      {"\\p{L", "a property without braces"},
      {"\\pL", "a property without braces"},
      {"\\p{Emoji}", "the property \"Emoji\""},
      {"[\\p{}]", "the property \"\""},
      {"\\p{Unknown}", "the property \"Unknown\""},
      {"\\p{Script=Han}", "the property \"Script=Han\""},
      {"\\W", "the escape \\W"},
      {"[\\w]", "the escape \\w"},
      {"\\D", "the escape \\D"},
      {"\\X", "the escape \\X"},
      {"\\R", "the escape \\R"},
      {"[b-a]", "a range that ends before it begins"},
      {"\\x{110000}", "a hexadecimal escape that is no character"},
      {"\\uD800", "a hexadecimal escape that is no character"},
      {"\\x{}", "an incomplete hexadecimal escape"},
      {"\\u12", "an incomplete hexadecimal escape"},
      {"\\x80", "a byte escape above \\x7f"},
      {"(?i:ss)", "two letters under (?i:"},
      {"(?i:\xC3\xA9)", "a character beyond ASCII under (?i:"},
      {"(?i:[a])", "a class of one character under (?i:"},
      {"(?i:[^aa])", "a class of one character under (?i:"},
      {"(?i:[a\xC3\xA9])", "a class beyond ASCII under (?i:"},
      {"(?i:[\\Sa])", "a class beyond ASCII under (?i:"},
      {"(?i:(?:\\p{L}))", "a property under (?i:"},
      {"\\\xC3\xA9", "a backslash before a character beyond ASCII"}};
  for (const auto& test : refused) {
    EXPECT_ERROR(translate_regex(test.first), test.second) << test.first;
  }
}

TEST(TokenizerRegexTest, WrongPatternsSayWhere) {
  EXPECT_ERROR(SplitRegex::from_pattern("a(b"),
               "\"a(b\" is wrong: missing closing parenthesis, after \"a(b\"");
  EXPECT_ERROR(SplitRegex::from_pattern("a)"), "unmatched closing parenthesis");
  EXPECT_ERROR(SplitRegex::from_pattern("*a"), "the split pattern \"*a\" is wrong: quantifier");
}

TEST(TokenizerRegexTest, TellsAtMost255KindsOfCharacterApart) {
  std::string literals;
  for (char32_t c = 0x4E00; c < 0x4E00 + 254; ++c) append_utf8(literals, c);
  EXPECT_EQ(split(literals, "a" + literals + "b"), (Pieces{"a", literals, "b"}));
  append_utf8(literals, 0x5000);
  EXPECT_ERROR(split(literals, ""), "tells more than 255 kinds of character apart");
  append_utf8(literals, 0x5001);
  EXPECT_ERROR(split(literals, ""), "has more than 255 different characters and classes");
  EXPECT_ERROR(SplitRegex::from_literal(literals), "has more than 255 different");
}

// Kinds are bytes, not letters: (?i: must not join the kinds 0x41 and 0x61. Here they are A and f.
TEST(TokenizerRegexTest, KindsHaveNoCase) {
  std::string pattern = "(?i:f)!|[\\x5b-\\x60]~~";
  for (int c = 0; c < 0x80; ++c) {
    if (c < 0x5B || c > 0x60) pattern += fmt::format("|\\x{:02x}~~", c);
  }
  EXPECT_EQ(split(pattern, "bA!bF!f!"), (Pieces{"bA!b", "F!", "f!"}));
}

// Patterns that backtrack end in an Error soon: exponential at one place, costly at every place, in
// lookaheads, polynomial. On the text's 20,000 places they would take hours.
TEST(TokenizerRegexTest, GivesUpOnHostilePatterns) {
  const std::vector<std::string> patterns = {"(?:a|a)*b|(?:a+)+c",
                                             "(?:a|a){0,20}(?:b|c)",
                                             "(?:a|a){0,12}(?:b|c)",
                                             "(?=(?:a|a){0,20}(?:b|c))",
                                             "(?!(?:a|aa)+(?:b|c))d|(?:a?){25}(?:b|c)",
                                             "a*a*a*a*a*a*(?:b|c)",
                                             "(?:(?:a*)*)*(?:b|c)"};
  for (const std::string& pattern : patterns) {
    const SplitRegex regex = SplitRegex::from_pattern(pattern);
    for (const std::size_t length : {40, 20'000}) {
      EXPECT_ERROR(split(regex, std::string(length, 'a')),
                   "the split pattern \"" + pattern + "\" gives up at character ")
          << length;
    }
  }
}

// Short pieces of an earlier step must not each have steps for a long text.
TEST(TokenizerRegexTest, GivesUpSoonOnManyShortPieces) {
  const SplitRegex regex = SplitRegex::from_pattern("(?:a|a){0,20}(?:b|c)");
  EXPECT_ERROR(split(regex, std::string(25, 'a')), "gives up at character 0");
}

TEST(TokenizerRegexTest, LongPiecesNeedNoStack) {
  EXPECT_EQ(split("(?:ab)+", std::string(1 << 20, 'a')).size(), 1u);
  std::string pairs;
  for (int i = 0; i < (1 << 16); ++i) pairs += "ab";
  EXPECT_EQ(split("(?:a|b)+", pairs), Pieces{pairs});
  EXPECT_EQ(split(kLlama3Pattern, std::string(1 << 20, ' ')).size(), 1u);
  EXPECT_EQ(split(kLlama3Pattern, std::string(1 << 20, 'x')).size(), 1u);
}

}  // namespace
}  // namespace specdec
