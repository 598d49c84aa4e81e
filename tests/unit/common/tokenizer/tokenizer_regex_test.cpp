#include <string>
#include <vector>

#include "common/tokenizer/regex_translation.h"
#include "common/tokenizer/split_regex.h"
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
// Letters and numbers come from PCRE2, one character at a time.
class HandScanner {
 public:
  Pieces scan(std::string_view text) {
    characters_.clear();
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Step step = next_utf8(text.substr(at));
      const std::string bytes(text.substr(at, step.length));
      characters_.push_back(
          {step.character, bytes, letter_.matches(bytes), number_.matches(bytes)});
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

  SplitRegex letter_ = SplitRegex::from_pattern("\\p{L}");
  SplitRegex number_ = SplitRegex::from_pattern("\\p{N}");
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
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    static const SplitRegex space = SplitRegex::from_pattern("\\s");
    static const SplitRegex no_space = SplitRegex::from_pattern("[\\S]");
    std::string text;
    append_utf8(text, c);
    ASSERT_EQ(space.matches(text), is_white_space(c)) << static_cast<unsigned>(c);
    ASSERT_NE(no_space.matches(text), is_white_space(c)) << static_cast<unsigned>(c);
  }
  const std::string separator = "\xE1\xA0\x8E";  // U+180E, white space to PCRE2's \s
  EXPECT_EQ(split("\\s+", "a " + separator), (Pieces{"a", " ", separator}));
  EXPECT_EQ(split("[^\\s]+", "a" + separator), (Pieces{"a" + separator}));
  EXPECT_EQ(split("\\S+", "a" + separator), (Pieces{"a" + separator}));
}

TEST(TokenizerRegexTest, LettersAndNumbersAreThoseOfUnicode16) {
  const std::string letter = "\xF0\xB1\x8D\x90";  // U+31350, of Unicode 15
  const std::string number = "\xF0\x90\xB5\x80";  // U+10D40, of Unicode 16
  EXPECT_EQ(split("\\p{L}+|\\p{N}", letter + number + "a"), (Pieces{letter, number, "a"}));
  EXPECT_EQ(split("[^\\p{L}]|\\P{N}", letter + number + "a"), (Pieces{letter, number, "a"}));
  EXPECT_EQ(split("\\P{L}+", letter + "!" + letter), (Pieces{letter, "!", letter}));
  EXPECT_EQ(split(kLlama3Pattern, " " + letter + "a" + number),
            (Pieces{" " + letter + "a", number}));
}

TEST(TokenizerRegexTest, WhatPassesMeansTheSame) {
  EXPECT_EQ(split("a|b", "xaby"), (Pieces{"x", "a", "b", "y"}));
  EXPECT_EQ(split("(a)(?:b)(?=c)(?!d)", "abcabd"), (Pieces{"ab", "cabd"}));
  EXPECT_EQ(split("(?<=a)b(?<!c)", "abcb"), (Pieces{"a", "b", "cb"}));
  EXPECT_EQ(split("(?>a+)b?", "aaab"), (Pieces{"aaab"}));
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
      {"[\\P{L}]", "\\P{L} in a class"},
      {"\\p{Emoji}", "the property \"Emoji\""},
      {"\\x{}", "an incomplete hexadecimal escape"},
      {"\\u12", "an incomplete hexadecimal escape"},
      {"\\x80", "a byte escape above \\x7f"},
      {"(?i:ss)", "two letters under (?i:"},
      {"(?i:\xC3\xA9)", "a character beyond ASCII under (?i:"},
      {"(?i:[a])", "a class under (?i:"},
      {"(?i:(?:\\p{L}))", "a property under (?i:"},
      {"\\\xC3\xA9", "a backslash before a character beyond ASCII"}};
  for (const auto& test : refused) {
    EXPECT_ERROR(translate_regex(test.first), test.second) << test.first;
  }
}

TEST(TokenizerRegexTest, WrongPatternsSayWhere) {
  EXPECT_ERROR(SplitRegex::from_pattern("a(b"),
               "\"a(b\" is wrong: missing closing parenthesis, after \"a(?:b\"");
  EXPECT_ERROR(SplitRegex::from_pattern("a)"), "unmatched closing parenthesis");
  EXPECT_ERROR(SplitRegex::from_pattern("*a"), "the split pattern \"*a\" is wrong: quantifier");
  EXPECT_ERROR(SplitRegex::from_pattern("[b-a]"), "range out of order");
  EXPECT_ERROR(SplitRegex::from_pattern("\\x{110000}"), "too large");
}

// Text that makes a search exponential ends in an Error instead of a hang or a crash.
TEST(TokenizerRegexTest, GivesUpOnHostilePatterns) {
  const SplitRegex regex = SplitRegex::from_pattern("(?:a|a)*b|(?:a+)+c");
  EXPECT_ERROR(split(regex, std::string(40, 'a')), "gives up at byte 0 of the text");
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
