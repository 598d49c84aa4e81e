// The tokenizer against what Hugging Face's `tokenizers` made of the same lines; see
// golden/tokenizers/README.md for the files.
#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/base/json_value.h"
#include "common/base/mapped_file.h"
#include "common/tokenizer/byte_alphabet.h"
#include "common/tokenizer/chat.h"
#include "common/tokenizer/tokenizer.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using Ids = std::vector<TokenId>;

const std::filesystem::path kGolden = SPECDEC_GOLDEN_DIR;
const std::filesystem::path kTokenizers = kGolden / "tokenizers";

std::vector<Json> read_lines(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path << " cannot be read";
  std::vector<Json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

struct Case {
  std::string name;  // of the golden files
  std::filesystem::path tokenizer;
  friend void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }
};

std::vector<Case> cases() {
  return {{"embedded", kGolden / "models/target/tokenizer.json"},
          {"llama3_synthetic", SPECDEC_SYNTHETIC_TOKENIZER},
          {"other_flags", kTokenizers / "other_flags/tokenizer.json"},
          {"gpt2_style", kTokenizers / "gpt2_style/tokenizer.json"}};
}

class TokenizerGoldenTest : public ::testing::TestWithParam<Case> {
 protected:
  std::filesystem::path golden(std::string_view kind) const {
    return kTokenizers / fmt::format("{}.{}.jsonl", GetParam().name, kind);
  }
  Tokenizer tokenizer_ = Tokenizer::load(GetParam().tokenizer);
};

TEST_P(TokenizerGoldenTest, EncodesLikeHuggingFace) {
  const auto lines = read_lines(kTokenizers / "lines.jsonl");
  const auto expected = read_lines(golden("encode"));
  ASSERT_EQ(lines.size(), expected.size());
  ASSERT_GE(lines.size(), 2000u);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string text = lines[i].get<std::string>();
    const Json& with = expected[i][0];
    const Json& without = expected[i][1].is_null() ? with : expected[i][1];
    ASSERT_EQ(tokenizer_.encode(text), with.get<Ids>()) << "line " << i << ": " << lines[i];
    ASSERT_EQ(tokenizer_.encode(text, /*add_special_tokens=*/false), without.get<Ids>())
        << "line " << i << ": " << lines[i];
  }
}

TEST_P(TokenizerGoldenTest, EncodesSpecialTokensAsTextLikeHuggingFace) {
  const auto lines = read_lines(kTokenizers / "lines.jsonl");
  const auto expected = read_lines(golden("special_as_text"));
  ASSERT_FALSE(expected.empty());
  for (const Json& golden : expected) {
    const Json& line = lines.at(golden["line"].get<std::size_t>());
    ASSERT_EQ(tokenizer_.encode(line.get<std::string>(), false, SpecialText::kOrdinary),
              golden["ids"].get<Ids>())
        << line;
  }
}

TEST_P(TokenizerGoldenTest, DecodesLikeHuggingFace) {
  const auto expected = read_lines(golden("decode"));
  ASSERT_GE(expected.size(), 500u);
  for (const Json& line : expected) {
    const Ids ids = line["ids"].get<Ids>();
    ASSERT_EQ(tokenizer_.decode(ids), line["text"].get<std::string>()) << line;
    ASSERT_EQ(tokenizer_.decode(ids, /*skip_special_tokens=*/false), line["raw"].get<std::string>())
        << line;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGoldenTest, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

// Both spellings of the merges, "a b" and ["a", "b"], are the same tokenizer.
TEST(TokenizerGoldenFilesTest, MergesAsPairsAreTheSame) {
  Json file = Json::parse(read_text_file(kGolden / "models/target/tokenizer.json"));
  const Tokenizer one = Tokenizer::parse(file.dump(), "one spelling");
  for (Json& merge : file["model"]["merges"]) {
    if (merge.is_string()) {
      const std::string text = merge.get<std::string>();
      const std::size_t space = text.find(' ');
      merge = {text.substr(0, space), text.substr(space + 1)};
    } else {
      merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
    }
  }
  const Tokenizer other = Tokenizer::parse(file.dump(), "the other spelling");
  for (const Json& line : read_lines(kTokenizers / "lines.jsonl")) {
    const std::string text = line.get<std::string>();
    ASSERT_EQ(one.encode(text), other.encode(text)) << line;
  }
}

// The fixtures have a few letters each, and no token for the other bytes. `tokenizers` drops such
// bytes; specdec refuses such a file. Given the missing letters, it must agree on all texts that do
// not use them.
class TokenizerFixtureTest : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenizerFixtureTest, MergesLikeHuggingFace) {
  Json file =
      Json::parse(read_text_file(kTokenizers / "fixtures" / (GetParam() + std::string(".json"))));
  Json& vocab = file["model"]["vocab"];
  const TokenId first_new_id = static_cast<TokenId>(vocab.size());
  EXPECT_ERROR(Tokenizer::parse(file.dump(), "f.json"), "f.json: model.vocab: there is no token");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string letter(alphabet_character(static_cast<unsigned char>(byte)));
    if (!vocab.contains(letter)) vocab[letter] = vocab.size();
  }
  const Tokenizer tokenizer = Tokenizer::parse(file.dump(), GetParam());
  const auto lines = read_lines(kTokenizers / "fixtures/lines.jsonl");
  const auto expected =
      read_lines(kTokenizers / "fixtures" / (GetParam() + std::string(".encode.jsonl")));
  ASSERT_EQ(lines.size(), expected.size());
  std::size_t compared = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Ids ids = tokenizer.encode(lines[i].get<std::string>());
    if (std::any_of(ids.begin(), ids.end(), [&](TokenId id) { return id >= first_new_id; })) {
      continue;
    }
    ASSERT_EQ(ids, expected[i][0].get<Ids>()) << lines[i];
    ++compared;
  }
  EXPECT_GE(compared, 50u);
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerFixtureTest,
                         ::testing::Values("duplicate_splits", "duplicate_splits_ignore_merges",
                                           "unreachable", "unreachable_ignore_merges",
                                           "missing_letters", "missing_letters_ignore_merges",
                                           "split_on_letter"),
                         [](const auto& test) { return std::string(test.param); });

TEST(ChatGoldenTest, RendersLikeTheTemplate) {
  const Tokenizer tokenizer = Tokenizer::load(kGolden / "models/target/tokenizer.json");
  const auto chats = read_lines(kTokenizers / "chat.jsonl");
  ASSERT_GE(chats.size(), 20u);
  for (const Json& chat : chats) {
    std::vector<ChatMessage> messages;
    for (const Json& message : chat["messages"]) {
      messages.push_back({message["role"], message["content"]});
    }
    const ChatOptions options{chat["date"], chat["add_generation_prompt"]};
    if (messages.front().role == "ipython") {  // tools are not supported
      EXPECT_ERROR(render_llama3_chat(messages, options), "message 0 has the role \"ipython\"");
      continue;
    }
    const std::string text = render_llama3_chat(messages, options);
    ASSERT_EQ(text, chat["text"].get<std::string>());
    ASSERT_EQ(tokenizer.encode(text, /*add_special_tokens=*/false),
              chat["ids_embedded"].get<Ids>());
  }
}

}  // namespace
}  // namespace specdec
