// The tokenizer against what Hugging Face's `tokenizers` made of the same lines; see
// golden/tokenizers/README.md for the files.
#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/base/json_value.h"
#include "common/base/mapped_file.h"
#include "common/golden_folder.h"
#include "common/tokenizer/chat.h"
#include "common/tokenizer/chat_template.h"
#include "common/tokenizer/tokenizer.h"
#include "tests/golden/crc32.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using Ids = std::vector<TokenId>;

const std::filesystem::path kGolden = golden_folder();
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

// The fixtures have a few letters each, and no token for the other bytes.
class TokenizerFixtureTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path file(std::string_view ending) const {
    return kTokenizers / "fixtures" / fmt::format("{}.{}", GetParam(), ending);
  }
  Tokenizer tokenizer_ = Tokenizer::load(file("json"));
};

TEST_P(TokenizerFixtureTest, EncodesLikeHuggingFace) {
  const auto lines = read_lines(kTokenizers / "fixtures/lines.jsonl");
  const auto expected = read_lines(file("encode.jsonl"));
  ASSERT_EQ(lines.size(), expected.size());
  ASSERT_GE(lines.size(), 300u);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ASSERT_EQ(tokenizer_.encode(lines[i].get<std::string>()), expected[i][0].get<Ids>())
        << lines[i];
  }
}

TEST_P(TokenizerFixtureTest, DecodesLikeHuggingFace) {
  const auto expected = read_lines(file("decode.jsonl"));
  ASSERT_GE(expected.size(), 60u);
  for (const Json& line : expected) {
    ASSERT_EQ(tokenizer_.decode(line["ids"].get<Ids>()), line["text"].get<std::string>()) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerFixtureTest,
                         ::testing::Values("duplicate_splits", "duplicate_splits_ignore_merges",
                                           "unreachable", "unreachable_ignore_merges",
                                           "missing_letters", "missing_letters_ignore_merges",
                                           "unknown_token", "unknown_token_ignore_merges",
                                           "unknown_token_fused",
                                           "unknown_token_fused_ignore_merges", "unknown_letter",
                                           "fuse_without_unknown", "split_on_letter"),
                         [](const auto& test) { return std::string(test.param); });

// Ten thousand lines, of which the golden file has checksums: lines.jsonl, and then two of its
// lines joined, as make_blocks.py does it.
std::vector<std::string> ten_thousand_lines() {
  std::vector<std::string> lines;
  for (const Json& line : read_lines(kTokenizers / "lines.jsonl")) lines.push_back(line);
  const std::size_t count = lines.size();
  for (std::size_t k = count; k < 10000; ++k) {
    lines.push_back(lines[k % count] + lines[(31 * k + k / count) % count]);
  }
  return lines;
}

// SmolLM2's is not in the repository: `make real` writes it.
std::vector<Case> cases_of_blocks() {
  return {{"missing_bytes", kTokenizers / "missing_bytes/tokenizer.json"},
          {"smollm2", kGolden.parent_path() / "build/models/SmolLM2-135M-Instruct/tokenizer.json"}};
}

class TokenizerBlocksTest : public ::testing::TestWithParam<Case> {};

TEST_P(TokenizerBlocksTest, TenThousandLinesLikeHuggingFace) {
  if (!std::filesystem::exists(GetParam().tokenizer)) {
    GTEST_SKIP() << "NOT CHECKED: there is no " << GetParam().tokenizer << "; `make real` makes it";
  }
  Tokenizer tokenizer = Tokenizer::load(GetParam().tokenizer);
  std::size_t lossy = 0;
  tokenizer.on_unknown_bytes([&](std::size_t) { ++lossy; });
  const Json golden = Json::parse(read_text_file(kTokenizers / (GetParam().name + ".blocks.json")));
  const auto block = golden["block"].get<std::size_t>();
  const std::vector<std::string> lines = ten_thousand_lines();
  ASSERT_EQ(golden["lines"].get<std::size_t>(), lines.size());
  for (std::size_t begin = 0; begin < lines.size(); begin += block) {
    Crc32 of_ids;
    Crc32 of_texts;
    for (std::size_t i = begin; i < begin + block; ++i) {
      const Ids ids = tokenizer.encode(lines[i], /*add_special_tokens=*/false);
      of_ids.add(Json(ids).dump() + "\n");
      of_texts.add(tokenizer.decode(ids, false) + tokenizer.decode(ids) + "\n");
    }
    ASSERT_EQ(of_ids.hex(), golden["ids"][begin / block].get<std::string>())
        << "lines " << begin << " to " << begin + block - 1;
    ASSERT_EQ(of_texts.hex(), golden["decoded"][begin / block].get<std::string>())
        << "lines " << begin << " to " << begin + block - 1;
  }
  EXPECT_EQ(lossy, golden["lines_that_lose_bytes"].get<std::size_t>());
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerBlocksTest, ::testing::ValuesIn(cases_of_blocks()),
                         [](const auto& test) { return test.param.name; });

// Folders whose other files name tokens, too, as transformers reads them.
TEST(TokenizerFoldersTest, ReadsTheOtherFilesLikeTransformers) {
  const auto folders = read_lines(kTokenizers / "folders.jsonl");
  ASSERT_GE(folders.size(), 80u);
  std::size_t changed = 0;
  for (std::size_t number = 1; number < folders.size(); ++number) {
    const Json& folder = folders[number];
    Json file = folders[0];
    file["added_tokens"] = folder["added_tokens"];
    const TemporaryDirectory directory;
    const auto path = directory.write("tokenizer.json", file.dump());
    const Tokenizer alone = Tokenizer::load(path);
    for (const auto& [name, content] : folder["files"].items()) {
      directory.write(name, content.dump());
    }
    const Tokenizer tokenizer = Tokenizer::load(path);
    for (std::size_t i = 0; i < folder["texts"].size(); ++i) {
      const std::string text = folder["texts"][i];
      const Ids ids = folder["ids"][i].get<Ids>();
      ASSERT_EQ(tokenizer.encode(text), ids) << "folder " << number << ": " << folder;
      ASSERT_EQ(tokenizer.decode(ids), folder["decoded"][i].get<std::string>())
          << "folder " << number << ": " << folder;
      changed += alone.encode(text) != ids;
    }
  }
  EXPECT_GE(changed, 80u) << "otherwise the files say little";
}

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
    const ChatFormat& format = find_chat_format("Llama 3.1");
    if (messages.front().role == "ipython") {  // tools are not supported
      EXPECT_ERROR(render_chat(format, messages, options), "message 0 has the role \"ipython\"");
      continue;
    }
    const std::string text = render_chat(format, messages, options);
    ASSERT_EQ(text, chat["text"].get<std::string>());
    ASSERT_EQ(tokenizer.encode(text, /*add_special_tokens=*/false),
              chat["ids_embedded"].get<Ids>());
  }
}

// Every template that we know has golden chats, and the format that we take for it renders them.
TEST(ChatGoldenTest, FormatsRenderLikeTheTemplatesThatWeKnow) {
  const auto templates = read_lines(kTokenizers / "chat_formats.jsonl");
  ASSERT_EQ(templates.size(), known_templates().size());
  for (const KnownTemplate& known : known_templates()) {
    const std::string hash = fmt::format("{:016x}", known.hash);
    const auto golden = std::ranges::find_if(
        templates, [&](const Json& line) { return line["fnv1a"].get<std::string>() == hash; });
    ASSERT_NE(golden, templates.end()) << hash;
    EXPECT_EQ((*golden)["length"], known.length);
    EXPECT_EQ((*golden)["format"].get<std::string>(), known.format);
    ASSERT_GE((*golden)["chats"].size(), 10u);
    for (const Json& chat : (*golden)["chats"]) {
      std::vector<ChatMessage> messages;
      for (const Json& message : chat["messages"]) {
        messages.push_back({message["role"], message["content"]});
      }
      ASSERT_EQ(render_chat(find_chat_format(known.format), messages),
                chat["text"].get<std::string>())
          << (*golden)["template"];
    }
  }
}

}  // namespace
}  // namespace specdec
