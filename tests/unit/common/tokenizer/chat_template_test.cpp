#include "common/tokenizer/chat_template.h"

#include <fmt/format.h>

#include "common/base/json_value.h"
#include "common/base/mapped_file.h"
#include "common/embedded_models.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path& target() {
  static const std::filesystem::path path = embedded_target();
  return path;
}

std::string tokenizer_json() { return read_text_file(target() / "tokenizer.json"); }

std::string with(std::string text, const std::string& before, const std::string& after) {
  for (std::size_t at = 0; (at = text.find(before, at)) != text.npos; at += after.size()) {
    text.replace(at, before.size(), after);
  }
  return text;
}

Tokenizer chatml_too(std::string json) {
  json = with(json, "<|reserved_special_token_0|>", "<|im_start|>");
  return Tokenizer::parse(with(json, "<|reserved_special_token_1|>", "<|im_end|>"), "both");
}

class ChatTemplateTest : public ::testing::Test {
 protected:
  ChatChoice choose(const Tokenizer& tokenizer) const {
    return choose_chat_format(directory_.path(), tokenizer);
  }
  ChatChoice choose() const { return choose(tokenizer_); }

  // What the choice is, or why there is none.
  std::string outcome() const {
    const ChatChoice choice = choose();
    return choice.format == nullptr ? choice.why : std::string(choice.format->name);
  }

  void write_config(const Json& config) const {
    directory_.write("tokenizer_config.json", config.dump());
  }

  TemporaryDirectory directory_;
  const Tokenizer tokenizer_ = Tokenizer::parse(tokenizer_json(), "embedded");
  const std::string known_ =
      Json::parse(read_text_file(target() / "tokenizer_config.json"))["chat_template"]
          .get<std::string>();
};

TEST_F(ChatTemplateTest, TheEmbeddedModelsTemplateIsKnown) {
  const ChatChoice choice = choose_chat_format(target(), tokenizer_);
  ASSERT_NE(choice.format, nullptr) << choice.why;
  EXPECT_EQ(choice.format->name, "Llama 3.1");
  EXPECT_EQ(choice.why, "by the template in tokenizer_config.json");
}

TEST_F(ChatTemplateTest, OneCharacterMakesATemplateUnknown) {
  for (std::size_t i = 0; i < known_.size(); i += 13) {
    std::string changed = known_;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_EQ(format_of_template(changed), nullptr) << i;
  }
  EXPECT_EQ(format_of_template(known_ + " "), nullptr);
  EXPECT_EQ(format_of_template(known_ + "\n"), nullptr) << "a second line end at the end counts";
  EXPECT_EQ(format_of_template(""), nullptr);
}

TEST_F(ChatTemplateTest, LineEndsMakeNoDifference) {
  ASSERT_TRUE(known_.ends_with('\n'));
  const std::string windows = with(known_, "\n", "\r\n");
  for (const std::string& text : {known_, windows, known_.substr(0, known_.size() - 1),
                                  windows.substr(0, windows.size() - 2)}) {
    ASSERT_NE(format_of_template(text), nullptr);
    EXPECT_EQ(format_of_template(text)->name, "Llama 3.1");
  }
}

TEST_F(ChatTemplateTest, AFileOfItsOwnCounts) {
  write_config({{"chat_template", "{{ messages }}"}});
  directory_.write("chat_template.jinja", known_);
  EXPECT_EQ(outcome(), "Llama 3.1");
  EXPECT_EQ(choose().why, "by the template in chat_template.jinja");
  write_config({{"chat_template", known_}});
  directory_.write("chat_template.jinja", "{{ messages }}");
  EXPECT_THAT(outcome(),
              HasSubstr("chat_template.jinja: the chat template \"{{ messages }}\" of 14 "
                        "bytes is unknown; we know those of Llama 3, Llama 3.1,"));
}

TEST_F(ChatTemplateTest, OfSeveralTheDefaultCounts) {
  const Json tools = {{"name", "tool_use"}, {"template", "{{ tools }}"}};
  const Json usual = {{"name", "default"}, {"template", known_}};
  write_config({{"chat_template", Json::array({tools, usual})}});
  EXPECT_EQ(outcome(), "Llama 3.1");
  write_config({{"chat_template", Json::array({tools})}});
  EXPECT_THAT(outcome(), HasSubstr("chat_template is a list without a template named \"default\""));
  write_config({{"chat_template", Json::array({"{{ tools }}"})}});
  EXPECT_THAT(outcome(), HasSubstr("tokenizer_config.json: chat_template: expected an object"));
  write_config({{"chat_template", 7}});
  EXPECT_THAT(outcome(), HasSubstr("chat_template is 7; it must be a text or a list"));
}

TEST_F(ChatTemplateTest, WithoutATemplateTheSpecialTokensCount) {
  EXPECT_EQ(outcome(), "Llama 3.1");
  EXPECT_EQ(choose().why, "by the special tokens; there is no chat template");
  write_config({{"chat_template", Json()}});
  EXPECT_EQ(outcome(), "Llama 3.1");

  const std::string json = tokenizer_json();
  const auto name_of = [&](const Tokenizer& tokenizer) {
    const ChatChoice choice = choose(tokenizer);
    return choice.format == nullptr ? choice.why : std::string(choice.format->name);
  };
  EXPECT_EQ(name_of(Tokenizer::parse(with(json, "<|eom_id|>", "<|other|>"), "first")), "Llama 3");
  EXPECT_EQ(name_of(chatml_too(with(json, "<|eot_id|>", "<|other|>"))), "ChatML");
  EXPECT_THAT(name_of(chatml_too(json)), HasSubstr("those of ChatML"));
  EXPECT_THAT(name_of(Tokenizer::parse(with(json, "<|eot_id|>", "<|other|>"), "none")),
              HasSubstr("has neither the special tokens of Llama 3 (<|begin_of_text|> "));
}

TEST_F(ChatTemplateTest, AKnownTemplateNeedsItsTokens) {
  write_config({{"chat_template", known_}});
  const std::string json = tokenizer_json();
  for (const std::string_view token : find_chat_format("Llama 3.1").special_tokens) {
    const ChatChoice choice =
        choose(Tokenizer::parse(with(json, std::string(token), "<|other|>"), "other"));
    EXPECT_EQ(choice.format, nullptr);
    EXPECT_EQ(
        choice.why,
        fmt::format("the chat format is Llama 3.1's, and the tokenizer has no special token {}",
                    token));
  }
}

TEST_F(ChatTemplateTest, ATemplateThatBeginsWithAnotherBosIsRefused) {
  write_config({{"chat_template", known_}, {"bos_token", "<|begin_of_text|>"}});
  EXPECT_EQ(outcome(), "Llama 3.1");
  const Json object = {{"content", "<|begin_of_text|>"}, {"special", true}};
  write_config({{"chat_template", known_}, {"bos_token", object}});
  EXPECT_EQ(outcome(), "Llama 3.1");
  write_config({{"chat_template", known_}, {"bos_token", "<s>"}});
  EXPECT_THAT(outcome(), HasSubstr("bos_token is \"<s>\", and chats in the format Llama 3.1 begin "
                                   "with <|begin_of_text|>"));
}

TEST_F(ChatTemplateTest, FilesThatCannotBeReadAreTheReason) {
  directory_.write("tokenizer_config.json", "{");
  EXPECT_THAT(outcome(), HasSubstr("tokenizer_config.json: not valid JSON"));
  std::filesystem::remove(directory_.path() / "tokenizer_config.json");
  std::filesystem::create_symlink("nowhere", directory_.path() / "chat_template.jinja");
  EXPECT_THAT(outcome(), HasSubstr("chat_template.jinja")) << "it was not downloaded";
}

}  // namespace
}  // namespace specdec
