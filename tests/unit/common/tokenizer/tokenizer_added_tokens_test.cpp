#include <string>
#include <vector>

#include "common/tokenizer/added_tokens.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using Flag = bool AddedToken::*;

AddedToken token(TokenId id, const std::string& content, const std::vector<Flag>& flags = {}) {
  AddedToken result;
  result.id = id;
  result.content = content;
  for (const Flag flag : flags) result.*flag = true;
  return result;
}

// The text with every added token as {id} and the stretches between in brackets.
std::string show(const std::vector<AddedToken>& tokens, std::string_view text,
                 SpecialText special_text = SpecialText::kToken) {
  std::string out;
  AddedTokens(tokens).split(
      text, special_text,
      [&](std::string_view stretch) {
        EXPECT_FALSE(stretch.empty());
        out += "[" + std::string(stretch) + "]";
      },
      [&](TokenId id) { out += fmt::format("{{{}}}", id); });
  return out;
}

TEST(TokenizerAddedTokensTest, TheLeftmostAndThenTheLongestIsTaken) {
  const std::vector<AddedToken> tokens = {token(1, "<a>"), token(2, "<a><b>"), token(3, "b><c"),
                                          token(4, "<c>")};
  EXPECT_EQ(show(tokens, "x<a>y<a><b>z"), "[x]{1}[y]{2}[z]");
  EXPECT_EQ(show(tokens, "<a><b><c>"), "{2}{4}") << "the left one uses up the beginning of 3";
  EXPECT_EQ(show(tokens, "<b><c>"), "[<]{3}[>]");
  EXPECT_EQ(show(tokens, "<a"), "[<a]");
  EXPECT_EQ(show(tokens, ""), "");
  EXPECT_EQ(show({}, "x"), "[x]");
}

TEST(TokenizerAddedTokensTest, StripTakesWhiteSpaceWithIt) {
  EXPECT_EQ(show({token(1, "<m>", {&AddedToken::lstrip})}, "a \t\xE3\x80\x80<m> b"), "[a]{1}[ b]");
  EXPECT_EQ(show({token(1, "<m>", {&AddedToken::rstrip})}, "a <m> \xC2\xA0\n"), "[a ]{1}");
  EXPECT_EQ(show({token(1, "<m>", {&AddedToken::lstrip})}, "  <m>"), "{1}");
  // U+180E and U+200B are no white space.
  EXPECT_EQ(show({token(1, "<m>", {&AddedToken::lstrip})}, "\xE1\xA0\x8E<m>"), "[\xE1\xA0\x8E]{1}");
  const std::vector<AddedToken> both = {
      token(1, "<m>", {&AddedToken::lstrip, &AddedToken::rstrip})};
  EXPECT_EQ(show(both, "a <m> <m> b"), "[a]{1}{1}[b]") << "each space is taken once";
}

TEST(TokenizerAddedTokensTest, ATokenInsideStrippedSpaceIsFoundAllTheSame) {
  const std::vector<AddedToken> tokens = {token(1, "<m>", {&AddedToken::rstrip}), token(2, "  ")};
  EXPECT_EQ(show(tokens, "<m>  x"), "{1}{2}[x]");
  EXPECT_EQ(show(tokens, "<m>   x"), "{1}{2}[ x]") << "given back, as Hugging Face does";
  const std::vector<AddedToken> tab = {token(1, "\t", {&AddedToken::lstrip, &AddedToken::rstrip})};
  EXPECT_EQ(show(tab, "a\t \tb\t"), "[a]{1}[b]{1}") << "nothing is left for the second";
}

TEST(TokenizerAddedTokensTest, SingleWordNeedsABoundaryOnBothSides) {
  const std::vector<AddedToken> tokens = {token(1, "cat", {&AddedToken::single_word})};
  EXPECT_EQ(show(tokens, "cat-cat cat."), "{1}[-]{1}[ ]{1}[.]");
  EXPECT_EQ(show(tokens, "cats"), "[cats]");
  EXPECT_EQ(show(tokens, "1cat"), "[1cat]");
  EXPECT_EQ(show(tokens, "_cat"), "[_cat]");
  EXPECT_EQ(show(tokens, "cat\xCC\x81"), "[cat\xCC\x81]") << "a combining accent is of the word";
  EXPECT_EQ(show(tokens, "cat\xE2\x80\x8D"), "[cat\xE2\x80\x8D]") << "so is the joiner U+200D";
  EXPECT_EQ(show(tokens,
                 "\xC2\xB2"
                 "cat"),
            "[\xC2\xB2]{1}")
      << "a superscript is not";
}

TEST(TokenizerAddedTokensTest, ARejectedMatchUsesItsCharactersUp) {
  const std::vector<AddedToken> tokens = {token(1, "foo", {&AddedToken::single_word}),
                                          token(2, "oo")};
  EXPECT_EQ(show(tokens, "xfoo"), "[xfoo]") << "2 is not looked for inside it";
  EXPECT_EQ(show(tokens, "xoo"), "[x]{2}");
}

TEST(TokenizerAddedTokensTest, NormalizedTokensComeSecond) {
  const std::vector<AddedToken> tokens = {token(1, "<<x>>", {&AddedToken::normalized}),
                                          token(2, "<x>")};
  EXPECT_EQ(show(tokens, "<<x>>"), "[<]{2}[>]") << "though 1 is longer and begins earlier";
  EXPECT_EQ(show({token(1, "<<x>>"), token(2, "<x>")}, "<<x>>"), "{1}");
  // For the second pass, a stretch is a text of its own: its ends are boundaries.
  const std::vector<AddedToken> word = {
      token(1, "cat", {&AddedToken::normalized, &AddedToken::single_word}), token(2, "s")};
  EXPECT_EQ(show(word, "cats"), "{1}{2}");
}

TEST(TokenizerAddedTokensTest, SpecialTokensCanBeLeftAsText) {
  const std::vector<AddedToken> tokens = {token(1, "<s>", {&AddedToken::special}), token(2, "<t>")};
  EXPECT_EQ(show(tokens, "<s><t>"), "{1}{2}");
  EXPECT_EQ(show(tokens, "<s><t>", SpecialText::kOrdinary), "[<s>]{2}");
}

}  // namespace
}  // namespace specdec
