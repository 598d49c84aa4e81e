#include "common/base/utf8.h"

#include <string>

#include "tests/test_support.h"
#include "tests/unit/common/tokenizer/tokenizer_random_text.h"

namespace specdec {
namespace {

using Kind = Utf8Step::Kind;

std::string lossy(std::string_view bytes) {
  std::string out;
  LossyUtf8 characters;
  characters.push(bytes, out);
  characters.finish(out);
  return out;
}

TEST(Utf8Test, EveryCharacterSurvivesARoundTrip) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string bytes;
    append_utf8(bytes, c);
    const Utf8Step step = next_utf8(bytes + "x");
    ASSERT_EQ(step.kind, Kind::kCharacter);
    ASSERT_EQ(step.length, bytes.size());
    ASSERT_EQ(step.character, c);
    for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
      ASSERT_EQ(next_utf8(std::string_view(bytes).substr(0, cut)).kind, Kind::kIncomplete);
      ASSERT_EQ(next_utf8(bytes.substr(0, cut) + "x").kind, Kind::kInvalid);
      ASSERT_EQ(next_utf8(bytes.substr(0, cut) + "x").length, cut);
    }
  }
}

TEST(Utf8Test, RefusesWhatIsNoCharacter) {
  // A continuation, an overlong "/", overlong in three and four bytes, a surrogate, above U+10FFFF.
  for (const char* bytes : {"\x80", "\xC0\xAF", "\xE0\x80\xAF", "\xF0\x80\x80\xAF", "\xED\xA0\x80",
                            "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    const Utf8Step step = next_utf8(bytes);
    EXPECT_EQ(step.kind, Kind::kInvalid);
    EXPECT_EQ(step.length, 1u) << "nothing begins so, hence the second byte is looked at again";
  }
}

TEST(Utf8Test, FindsTheOffsetOfTheFirstBadByte) {
  EXPECT_EQ(find_invalid_utf8(""), std::nullopt);
  EXPECT_EQ(find_invalid_utf8("sixteen letters \xF0\x9F\xA6\x99"), std::nullopt);
  for (std::size_t before = 0; before < 20; ++before) {
    EXPECT_EQ(find_invalid_utf8(std::string(before, 'a') + "\xFFzzzzzzzzzz"), before);
    EXPECT_EQ(find_invalid_utf8(std::string(before, 'a') + "\xE4\xBD"), before) << "cut off";
  }
}

// The examples of the Unicode Standard, tables 3-8 to 3-11, and of Rust's from_utf8_lossy.
TEST(LossyUtf8Test, ReplacesMaximalSubparts) {
  EXPECT_EQ(lossy("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82"
                  "A"),
            "��������A");
  EXPECT_EQ(lossy("\xED\xA0\x80\xED\xBF\xBF\xED\xAF"
                  "A"),
            "��������A");
  EXPECT_EQ(lossy("\xF4\x91\x92\x93\xFF"
                  "A\x80\xBF"
                  "B"),
            "�����A��B");
  EXPECT_EQ(lossy("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
                  "A"),
            "����A");
  EXPECT_EQ(lossy("Hello \xF0\x90\x80World"), "Hello �World");
  EXPECT_EQ(lossy("\xF0\x90\x80"), "�");
}

TEST(LossyUtf8Test, PiecesGiveTheSameTextAndAreUtf8) {
  RandomText random(1);
  for (int round = 0; round < 20000; ++round) {
    const std::string bytes = random.below(2) == 0 ? random.bytes(12) : random.text(6);
    const std::string whole = lossy(bytes);
    ASSERT_EQ(find_invalid_utf8(whole), std::nullopt);
    LossyUtf8 characters;
    std::string joined;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t length = 1 + random.below(3);
      std::string piece;
      characters.push(std::string_view(bytes).substr(at, length), piece);
      ASSERT_EQ(find_invalid_utf8(piece), std::nullopt);
      joined += piece;
      at += length;
    }
    characters.finish(joined);
    ASSERT_EQ(joined, whole);
  }
}

TEST(Utf8Test, TrimsWhatPythonTrims) {
  EXPECT_EQ(trim_like_python(" \t\n a b\x1C\x1F\xC2\x85"), "a b");
  EXPECT_EQ(trim_like_python("\xE3\x80\x80\xC2\xA0x\xE2\x80\xA8"), "x");
  EXPECT_EQ(trim_like_python(" \n"), "");
  EXPECT_EQ(trim_like_python(""), "");
  // U+180E and U+200B are no white space.
  EXPECT_EQ(trim_like_python("\xE1\xA0\x8E"
                             "a\xE2\x80\x8B"),
            "\xE1\xA0\x8E"
            "a\xE2\x80\x8B");
}

TEST(Utf8Test, QuotesAreOneShortLine) {
  EXPECT_EQ(in_quotes("a\nb\x01\xC2\x85\xFF"), "\"a\\nb\\u0001\\u0085�\"");
  const std::string longest = in_quotes(std::string(1000, 'x'));
  EXPECT_LT(longest.size(), 70u);
  EXPECT_THAT(longest, ::testing::EndsWith("x...\""));
}

}  // namespace
}  // namespace specdec
