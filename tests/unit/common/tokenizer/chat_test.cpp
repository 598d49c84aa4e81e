#include "common/tokenizer/chat.h"

#include <set>
#include <vector>

#include <fmt/format.h>

#include "tests/test_support.h"

namespace specdec {
namespace {

constexpr const char* kHeader =
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
    "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";

std::string render(std::string_view format, const std::vector<ChatMessage>& messages,
                   const ChatOptions& options = {}) {
  return render_chat(find_chat_format(format), messages, options);
}

TEST(ChatTest, WithoutSystemMessageTheHeaderIsTheDefault) {
  EXPECT_EQ(render("Llama 3.1", {{"user", "Hi"}}),
            fmt::format("{}{}", kHeader,
                        "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
                        "<|start_header_id|>assistant<|end_header_id|>\n\n"));
}

TEST(ChatTest, ALeadingSystemMessageJoinsTheHeaderAndContentsAreTrimmed) {
  const std::vector<ChatMessage> messages = {{"system", " Be brief.\n"},
                                             {"user", "\xE3\x80\x80Hi "},
                                             {"assistant", "Yes?"},
                                             {"system", "late"}};
  EXPECT_EQ(
      render("Llama 3.1", messages, {"26 Jul 2024", false}),
      fmt::format("{}{}", kHeader,
                  "Be brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
                  "<|start_header_id|>assistant<|end_header_id|>\n\nYes?<|eot_id|>"
                  "<|start_header_id|>system<|end_header_id|>\n\nlate<|eot_id|>"));
}

TEST(ChatTest, TheDateCanBeSet) {
  EXPECT_THAT(render("Llama 3.1", {{"user", "Hi"}}, {"01 Jan 2025", true}),
              ::testing::HasSubstr("Today Date: 01 Jan 2025\n\n"));
}

TEST(ChatTest, TheFirstLlama3HasNoHeader) {
  EXPECT_EQ(render("Llama 3", {{"user", " Hi "}}),
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

TEST(ChatTest, ChatMlKeepsWhiteSpace) {
  EXPECT_EQ(render("ChatML", {{"user", " Hi\n"}}),
            "<|im_start|>user\n Hi\n<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTest, ASystemMessageReplacesTheDefaultOne) {
  const std::string without = render("SmolLM2", {{"user", "Hi"}});
  EXPECT_THAT(without, ::testing::StartsWith("<|im_start|>system\nYou are a helpful AI assistant "
                                             "named SmolLM, trained by Hugging Face<|im_end|>\n"));
  for (const char* system : {"Be brief.", ""}) {
    EXPECT_EQ(render("SmolLM2", {{"system", system}, {"user", "Hi"}}),
              render("ChatML", {{"system", system}, {"user", "Hi"}}));
  }
  EXPECT_THAT(render("SmolLM2", {{"user", "Hi"}, {"system", "late"}}),
              ::testing::StartsWith(without.substr(0, without.find("<|im_end|>"))));
}

TEST(ChatTest, EveryFormatSaysWhatItNeeds) {
  std::set<std::string_view> names;
  for (const ChatFormat& format : chat_formats()) {
    EXPECT_TRUE(names.insert(format.name).second) << format.name;
    const std::string text = render_chat(format, std::vector<ChatMessage>{{"user", "Hi"}});
    for (const std::string_view token : format.special_tokens) {
      EXPECT_THAT(text, ::testing::HasSubstr(std::string(token)));
    }
    EXPECT_THAT(format.after_content, ::testing::StartsWith(std::string(format.end_of_turn)));
    EXPECT_THAT(format.special_tokens, ::testing::Contains(format.end_of_turn));
  }
}

TEST(ChatTest, RefusesWhatIsNoConversation) {
  for (const ChatFormat& format : chat_formats()) {
    EXPECT_ERROR(render(format.name, {}), "a chat needs at least one message");
    EXPECT_ERROR(render(format.name, {{"user", "Hi"}, {"tool", "4"}}),
                 "message 1 has the role \"tool\"");
    EXPECT_ERROR(render(format.name, {{"user", "Hi\xFF"}}), "message 0 is not UTF-8 at byte 2");
  }
}

}  // namespace
}  // namespace specdec
