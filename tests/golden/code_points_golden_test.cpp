// Every code point against what Hugging Face's `tokenizers` says of it: golden/tokenizers/
// code_points.json, which make_code_points.py writes.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json_value.h"
#include "common/base/mapped_file.h"
#include "common/base/utf8.h"
#include "common/golden_folder.h"
#include "common/tokenizer/added_tokens.h"
#include "common/tokenizer/split_regex.h"
#include "common/tokenizer/tokenizer_parts.h"
#include "common/tokenizer/unicode.h"
#include "tests/golden/crc32.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

const Json& golden() {
  static const Json content =
      Json::parse(read_text_file(golden_folder() / "tokenizers/code_points.json"));
  return content;
}

// Calls visit for each character with a number in [first, end).
template <typename Visit>
void for_each_character(char32_t first, char32_t end, Visit visit) {
  std::string character;
  for (char32_t c = first; c < end; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    character.clear();
    append_utf8(character, c);
    visit(character);
  }
}

// Compares the CRC of each block of code points.
template <typename Compute>
void expect_blocks(const Json& expected, Compute compute) {
  const auto size = static_cast<char32_t>(golden()["block"].get<int>());
  ASSERT_EQ(expected.size() * size, kLastCodePoint + 1);
  for (std::size_t block = 0; block < expected.size(); ++block) {
    const auto first = static_cast<char32_t>(block * size);
    ASSERT_EQ(compute(first, first + size), expected[block].get<std::string>())
        << fmt::format("U+{:04X} to U+{:04X}", static_cast<unsigned>(first),
                       static_cast<unsigned>(first + size - 1));
  }
}

TEST(CodePointsGoldenTest, PropertiesHaveTheSameMembers) {
  ASSERT_GE(golden()["properties"].size(), 200u);
  for (const auto& [name, expected] : golden()["properties"].items()) {
    const auto property = unicode_property(name);
    ASSERT_TRUE(property) << name;
    Crc32 crc;
    for (const CodePointRange& range : property->ranges()) {
      crc.add(range.first);
      crc.add(range.last);
    }
    EXPECT_EQ(crc.hex(), expected.get<std::string>()) << name;
  }
}

TEST(CodePointsGoldenTest, RegexesMatchTheSameCharacters) {
  std::string text;
  for_each_character(0, kLastCodePoint + 1, [&](const std::string& c) { text += c; });
  for (const auto& [regex, expected] : golden()["regexes"].items()) {
    Crc32 crc;
    SplitRegex::from_pattern(regex).split(
        text, [&](std::string_view piece) { crc.add(static_cast<std::uint32_t>(piece.size())); });
    EXPECT_EQ(crc.hex(), expected.get<std::string>()) << regex;
  }
}

// What may be beside an added token with single_word, and what lstrip and rstrip take.
TEST(CodePointsGoldenTest, AddedTokensHaveTheSameNeighbours) {
  const AddedTokens tokens({{.id = 0, .content = "<word>", .single_word = true},
                            {.id = 1, .content = "<strip>", .lstrip = true, .rstrip = true}});
  std::size_t text_bytes = 0;
  std::size_t found = 0;
  const auto split = [&](const std::string& text) {
    text_bytes = found = 0;
    tokens.split(
        text, SpecialText::kToken, [&](std::string_view rest) { text_bytes += rest.size(); },
        [&](TokenId) { ++found; });
  };
  expect_blocks(golden()["beside_added_tokens"], [&](char32_t first, char32_t end) {
    Crc32 crc;
    for_each_character(first, end, [&](const std::string& c) {
      std::uint8_t flags = 0;
      split(c + "<word>");
      if (found == 0) flags |= 1;
      split("<word>" + c);
      if (found == 0) flags |= 2;
      split("x" + c + "<strip>x");
      if (text_bytes == 2) flags |= 4;
      split("x<strip>" + c + "x");
      if (text_bytes == 2) flags |= 8;
      crc.add_byte(flags);
    });
    return crc.hex();
  });
}

class CodePointsInChainTest : public ::testing::TestWithParam<int> {};

// The same text as contexts() in make_code_points.py.
TEST_P(CodePointsInChainTest, CutsTheSamePieces) {
  const Json& chain = golden()["chains"].at(static_cast<std::size_t>(GetParam()));
  SCOPED_TRACE(chain["name"].get<std::string>());
  const PreTokenizer pre_tokenizer = read_pre_tokenizer(chain);
  std::string text;
  expect_blocks(chain["crc32"], [&](char32_t first, char32_t end) {
    text.clear();
    for_each_character(first, end, [&](const std::string& c) {
      for (const char* before : {"", " ", "a", "", "B", "1", "\n", "'"}) text.append(before) += c;
      text += "e!";
    });
    Crc32 crc;
    pre_tokenizer.split(
        text, [&](std::string_view piece) { crc.add(static_cast<std::uint32_t>(piece.size())); });
    return crc.hex();
  });
}

// Eight published models' patterns, and Digits once more with its other flag.
INSTANTIATE_TEST_SUITE_P(All, CodePointsInChainTest, ::testing::Range(0, 9));

TEST(CodePointsGoldenTest, EveryChainIsTested) { EXPECT_EQ(golden()["chains"].size(), 9u); }

}  // namespace
}  // namespace specdec
