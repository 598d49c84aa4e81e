#include "common/tokenizer/tokenizer.h"

#include <string>
#include <thread>
#include <vector>

#include "common/base/json_value.h"
#include "tests/test_support.h"
#include "tests/unit/common/tokenizer/tokenizer_builder.h"
#include "tests/unit/common/tokenizer/tokenizer_random_text.h"

namespace specdec {
namespace {

using Ids = std::vector<TokenId>;
// "Ġ" is a space in the alphabet. Ids: 256 "he", 257 "ll", 258 "hell", 259 "hello", 260 "Ġhello",
// 261 <|begin|>, 262 <|end|>.
const std::vector<std::pair<std::string, std::string>> kHello = {
    {"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}, {"Ġ", "hello"}};

TEST(TokenizerTest, EncodesWordByWord) {
  const Tokenizer tokenizer = parse(small_tokenizer(kHello));
  EXPECT_EQ(tokenizer.encode("hello hello"), (Ids{261, 259, 260}));
  EXPECT_EQ(tokenizer.encode("hello hello", false), (Ids{259, 260}));
  EXPECT_EQ(tokenizer.encode("hellos", false), (Ids{259, 's'}));
  EXPECT_EQ(tokenizer.encode("", false), Ids{});
  EXPECT_EQ(tokenizer.encode("", true), Ids{261});
  EXPECT_EQ(tokenizer.encode("\xC3\xA9", false), (Ids{0xC3, 0xA9}));
  EXPECT_EQ(tokenizer.encode(std::string_view("a\0b", 3), false), (Ids{'a', 0, 'b'}));
}

TEST(TokenizerTest, DecodesBytesAndLeavesSpecialTokensOut) {
  const Tokenizer tokenizer = parse(small_tokenizer(kHello));
  const Ids ids = {261, 259, 260, 262};
  EXPECT_EQ(tokenizer.decode(ids), "hello hello");
  EXPECT_EQ(tokenizer.decode(ids, false), "<|begin|>hello hello<|end|>");
  EXPECT_EQ(tokenizer.decode(Ids{-1, 'a', 263, 2147483647, 'b'}), "ab") << "no such ids";
  EXPECT_EQ(tokenizer.decode(Ids{0xE4, 0xB8, 'x', 0xAD}), "�x�");
}

TEST(TokenizerTest, AnswersQuestionsAboutTokens) {
  const Tokenizer tokenizer = parse(small_tokenizer(kHello));
  EXPECT_EQ(tokenizer.vocab_size(), 263);
  EXPECT_EQ(tokenizer.token_count(), 263u);
  EXPECT_EQ(tokenizer.find_token("Ġhello"), 260);
  EXPECT_EQ(tokenizer.find_token("<|end|>"), 262);
  EXPECT_EQ(tokenizer.find_token(" hello"), std::nullopt);
  EXPECT_EQ(tokenizer.token_text(260), "Ġhello");
  EXPECT_EQ(tokenizer.token_bytes(260), " hello");
  EXPECT_TRUE(tokenizer.is_special(262));
  EXPECT_FALSE(tokenizer.is_special(260) || tokenizer.is_special(-1) || tokenizer.is_special(263));
  EXPECT_FALSE(tokenizer.contains(-1) || tokenizer.contains(263));
  ASSERT_EQ(tokenizer.added_tokens().size(), 2u);
  EXPECT_EQ(tokenizer.added_tokens()[1].content, "<|end|>");
  EXPECT_EQ(tokenizer.tokens_before_text()[0], 261);
  EXPECT_TRUE(tokenizer.tokens_after_text().empty());
}

TEST(TokenizerTest, RefusesTextThatIsNoUtf8) {
  const Tokenizer tokenizer = parse(small_tokenizer());
  EXPECT_ERROR(tokenizer.encode("ab\xFFzz"), "the text is not UTF-8: byte 0xFF at offset 2");
  EXPECT_ERROR(tokenizer.encode("ab\xE4\xB8"), "byte 0xE4 at offset 2");
}

// The bytes whose tokens are taken away are no part of "he", the only merge.
Json without_some_bytes() {
  Json file = small_tokenizer({{"h", "e"}});
  for (const char* letter : {"\u0104", "q", "\u00F3"}) file["model"]["vocab"].erase(letter);
  return file;
}

TEST(TokenizerTest, BytesWithoutATokenAreLeftOut) {
  Tokenizer tokenizer = parse(without_some_bytes());
  EXPECT_EQ(tokenizer.unknown_token(), std::nullopt);
  std::vector<std::size_t> left_out;
  tokenizer.on_unknown_bytes([&](std::size_t bytes) { left_out.push_back(bytes); });
  EXPECT_EQ(tokenizer.encode("he", false), Ids{256});
  EXPECT_THAT(left_out, ::testing::IsEmpty());
  EXPECT_EQ(tokenizer.encode("\x04"
                             "a",
                             false),
            Ids{'a'});
  EXPECT_EQ(tokenizer.encode("hqe", false), Ids{256}) << "neighbours once the q is gone";
  EXPECT_EQ(tokenizer.encode("qqq", false), Ids{});
  EXPECT_EQ(tokenizer.encode("q <|end|>q\U000F0000", false), (Ids{' ', 258, 0xB0, 0x80, 0x80}));
  EXPECT_THAT(left_out, ::testing::ElementsAre(1, 1, 3, 3)) << "one call for each text";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("quiet")), "uiet");
}

TEST(TokenizerTest, BytesWithoutATokenBecomeTheUnknownToken) {
  Json file = without_some_bytes();
  file["model"]["unk_token"] = "x";
  const Tokenizer each = parse(file);
  EXPECT_EQ(each.unknown_token(), 'x');
  EXPECT_EQ(each.encode("hqqe qx", false), (Ids{'h', 'x', 'x', 'e', ' ', 'x', 'x'}));
  file["model"]["fuse_unk"] = true;
  EXPECT_EQ(parse(file).encode("hqqe qx", false), (Ids{'h', 'x', 'e', ' ', 'x', 'x'}));
}

TEST(TokenizerTest, IgnoreMergesIsAFlag) {
  Json file = small_tokenizer({{"h", "e"}});
  file["model"]["vocab"]["xyz"] = 300;  // no merge makes it
  EXPECT_EQ(parse(file).encode("xyz", false), Ids{300});
  EXPECT_EQ(parse(file).encode("xyz xyz", false), (Ids{300, ' ', 'x', 'y', 'z'}));
  file["model"]["ignore_merges"] = false;
  EXPECT_EQ(parse(file).encode("xyz", false), (Ids{'x', 'y', 'z'}));
}

TEST(TokenizerTest, AnAddedTokenIsNoTokenOfTheModel) {
  Json file = small_tokenizer();
  file["added_tokens"][1]["content"] = "abc";
  file["added_tokens"][1]["single_word"] = true;
  const Tokenizer tokenizer = parse(file);
  EXPECT_EQ(tokenizer.encode("abc", false), Ids{257});
  // Not found as an added token, and so not at all, though ignore_merges looks up whole words.
  EXPECT_EQ(tokenizer.encode("1abc abc", false), (Ids{'1', 'a', 'b', 'c', ' ', 257}));
}

TEST(TokenizerTest, TokensOutsideTheAlphabetStandForThemselves) {
  Json file = small_tokenizer();
  file["model"]["vocab"]["\xE4\xB8\xAD"] = 300;              // the character itself: raw
  file["model"]["vocab"]["\xC3\xA4\xC2\xB8\xC5\x83"] = 301;  // its bytes in the alphabet
  const Tokenizer tokenizer = parse(file);
  EXPECT_EQ(tokenizer.encode("\xE4\xB8\xAD", false), Ids{301});
  EXPECT_EQ(tokenizer.decode(Ids{300, 301}), "\xE4\xB8\xAD\xE4\xB8\xAD");
  EXPECT_EQ(tokenizer.find_token("\xE4\xB8\xAD"), 300);
  EXPECT_EQ(tokenizer.token_text(300), "\xE4\xB8\xAD");
  EXPECT_EQ(tokenizer.token_text(301), "\xC3\xA4\xC2\xB8\xC5\x83");
}

TEST(TokenizerTest, TheTemplateMayPutTokensOnBothSides) {
  Json file = small_tokenizer();
  Json& around = file["post_processor"]["processors"][1];
  around["special_tokens"]["end"] = {{"id", "end"}, {"ids", {257, 256}}, {"tokens", {"a", "b"}}};
  around["single"].push_back({{"SpecialToken", {{"id", "end"}, {"type_id", 0}}}});
  EXPECT_EQ(parse(file).encode("a"), (Ids{256, 'a', 257, 256}));
  // A second template goes around the first.
  file["post_processor"]["processors"].push_back(around);
  EXPECT_EQ(parse(file).encode("a"), (Ids{256, 256, 'a', 257, 256, 257, 256}));
  file["post_processor"] = nullptr;
  EXPECT_EQ(parse(file).encode("a"), Ids{'a'});
}

TEST(TokenizerTest, PreTokenizersFollowOneAnother) {
  Json file = small_tokenizer();
  file["model"]["vocab"]["12"] = 300;
  file["model"]["vocab"]["Ġ"] = 32;
  Json digits = {{"type", "Digits"}, {"individual_digits", false}};
  Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {digits, byte_level}}};
  EXPECT_EQ(parse(file).encode("a12", false), (Ids{'a', 300}));
  file["pre_tokenizer"]["pretokenizers"][0]["individual_digits"] = true;
  EXPECT_EQ(parse(file).encode("a12", false), (Ids{'a', '1', '2'}));
  // A space goes before every piece that has none, after an added token too.
  file["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true;
  EXPECT_EQ(parse(file).encode("a1 b<|end|>c", false),
            (Ids{' ', 'a', ' ', '1', ' ', 'b', 257, ' ', 'c'}));
  // Without use_regex, and with neither ignore_merges nor merges, nothing but bytes is left.
  file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"use_regex", false}};
  EXPECT_EQ(parse(file).encode("12", false), (Ids{' ', '1', '2'}));
  file["pre_tokenizer"]["add_prefix_space"] = false;
  EXPECT_EQ(parse(file).encode("12", false), Ids{300});
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"String", "2"}}}, {"behavior", "Isolated"}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  EXPECT_EQ(parse(file).encode("12", false), (Ids{'1', '2'}));
}

TEST(TokenizerTest, HarmlessVariationsLoad) {
  Json file = small_tokenizer(kHello);
  const Ids expected = parse(file).encode("hello <|end|> 123");
  file["model"].erase("type");
  file["model"]["continuing_subword_prefix"] = "";
  file["model"]["end_of_word_suffix"] = "";
  file["model"]["dropout"] = 0.0;
  file["model"]["unk_token"] = "<|begin|>";  // with a token for each byte nothing is unknown
  file["padding"] = {{"strategy", "BatchLongest"}};
  file["truncation"] = {{"max_length", 1}};
  file["something_new"] = {{"vocab", {{"a", 1.5}}}};
  file["decoder"] = {{"type", "Sequence"}, {"decoders", Json::array({file["decoder"]})}};
  Json merges = Json::array();
  merges.push_back("#version: 0.2");
  for (const auto& merge : file["model"]["merges"]) merges.push_back(merge);
  file["model"]["merges"] = merges;
  EXPECT_EQ(parse(file).encode("hello <|end|> 123"), expected);
  // Merges before the vocabulary, and as pairs.
  std::string reordered = file.dump();
  Json pairs = Json::array();
  for (const auto& [left, right] : kHello) pairs.push_back({left, right});
  Json rest = file["model"];
  rest.erase("merges");
  file.erase("model");
  reordered = file.dump();
  reordered.pop_back();
  reordered += ",\"model\":{\"merges\":" + pairs.dump() + "," + rest.dump().substr(1) + "}";
  EXPECT_EQ(Tokenizer::parse(reordered, "f").encode("hello <|end|> 123"), expected);
}

TEST(TokenizerTest, DecodeUndoesEncodeForAnyText) {
  Json file = small_tokenizer({{"Ġ", "Ġ"}, {"Ã", "©"}, {"s", "t"}, {"ð", "Ł"}, {"'", "s"}});
  for (const bool ignore_merges : {true, false}) {
    file["model"]["ignore_merges"] = ignore_merges;
    const Tokenizer tokenizer = parse(file);
    RandomText random(4);
    for (int round = 0; round < 20000; ++round) {
      const std::string text = random.text(20);
      const Ids ids = tokenizer.encode(text);
      ASSERT_EQ(tokenizer.decode(ids), text) << in_quotes(text);
      for (const TokenId id : ids) ASSERT_TRUE(tokenizer.contains(id));
    }
  }
}

TEST(StreamDecoderTest, PiecesAreUtf8AndJoinToDecode) {
  const Tokenizer tokenizer = parse(small_tokenizer(kHello));
  RandomText random(5);
  for (int round = 0; round < 20000; ++round) {
    Ids ids;
    const std::string text = random.below(2) == 0 ? random.text(5) : random.bytes(8);
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
    if (random.below(4) == 0) ids.push_back(static_cast<TokenId>(random.below(270)));
    const bool skip = random.below(2) == 0;
    StreamDecoder decoder(tokenizer, skip);
    std::string joined;
    for (const TokenId id : ids) {
      const std::string piece = decoder.push(id);
      ASSERT_EQ(find_invalid_utf8(piece), std::nullopt);
      joined += piece;
    }
    joined += decoder.finish();
    ASSERT_EQ(joined, tokenizer.decode(ids, skip));
    ASSERT_EQ(decoder.finish(), "") << "as new";
  }
}

TEST(StreamDecoderTest, ACharacterWaitsForItsLastByte) {
  const Tokenizer tokenizer = parse(small_tokenizer());
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.push(0x9F), "");
  EXPECT_EQ(decoder.push(0xA6), "");
  EXPECT_EQ(decoder.push(0x99), "\xF0\x9F\xA6\x99");
  EXPECT_EQ(decoder.push(0xE4), "");
  EXPECT_EQ(decoder.push('a'), "�a") << "no waiting once it is clear that nothing will come";
  EXPECT_EQ(decoder.push(0xE4), "");
  EXPECT_EQ(decoder.finish(), "�");
}

TEST(TokenizerTest, TheFirstDifferenceIsNamed) {
  const Tokenizer target = parse(small_tokenizer(kHello));
  EXPECT_EQ(first_difference(target, parse(small_tokenizer(kHello))), std::nullopt);
  EXPECT_EQ(first_difference(target, parse(small_tokenizer({{"h", "a"}}))),
            "token 256 is \"he\" in the target's tokenizer and \"ha\" in the draft's");
  Json file = small_tokenizer(kHello);
  file["added_tokens"][1]["special"] = false;
  EXPECT_EQ(first_difference(target, parse(file)),
            "token 262 is \"<|end|>\" (special) in the target's tokenizer and \"<|end|>\" in the "
            "draft's");
  remove_element(file["added_tokens"], 1);
  EXPECT_EQ(first_difference(parse(file), target),
            "token 262 is not in use in the target's tokenizer and \"<|end|>\" (special) in the "
            "draft's");
}

TEST(TokenizerTest, HolesInTheVocabularyAreAllowed) {
  Json file = small_tokenizer();
  file["added_tokens"][1]["id"] = 5000;
  const Tokenizer tokenizer = parse(file);
  EXPECT_EQ(tokenizer.vocab_size(), 5001);
  EXPECT_EQ(tokenizer.token_count(), 258u);
  EXPECT_EQ(tokenizer.encode("<|end|>", false), Ids{5000});
  EXPECT_EQ(tokenizer.decode(Ids{4999, 'a'}), "a");
}

TEST(TokenizerTest, SeveralThreadsMayEncode) {
  const Tokenizer tokenizer = parse(small_tokenizer(kHello));
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      RandomText random(static_cast<unsigned>(t));
      for (int i = 0; i < 500; ++i) {
        const std::string text = random.text(30) + " hello";
        wrong[t] += tokenizer.decode(tokenizer.encode(text)) != text;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ::testing::Each(0));
}

}  // namespace
}  // namespace specdec
