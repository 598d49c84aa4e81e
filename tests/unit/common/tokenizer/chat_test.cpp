#include "common/tokenizer/chat.h"

#include <vector>

#include <fmt/format.h>

#include "tests/test_support.h"

namespace specdec {
namespace {

constexpr const char* kHeader =
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
    "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";

TEST(ChatTest, WithoutSystemMessageTheHeaderIsTheDefault) {
  EXPECT_EQ(render_llama3_chat(std::vector<ChatMessage>{{"user", "Hi"}}),
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
      render_llama3_chat(messages, {"26 Jul 2024", false}),
      fmt::format("{}{}", kHeader,
                  "Be brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
                  "<|start_header_id|>assistant<|end_header_id|>\n\nYes?<|eot_id|>"
                  "<|start_header_id|>system<|end_header_id|>\n\nlate<|eot_id|>"));
}

TEST(ChatTest, TheDateCanBeSet) {
  const std::vector<ChatMessage> messages = {{"user", "Hi"}};
  EXPECT_THAT(render_llama3_chat(messages, {"01 Jan 2025", true}),
              ::testing::HasSubstr("Today Date: 01 Jan 2025\n\n"));
}

TEST(ChatTest, RefusesWhatIsNoConversation) {
  EXPECT_ERROR(render_llama3_chat({}), "a chat needs at least one message");
  const std::vector<ChatMessage> tool = {{"user", "Hi"}, {"tool", "4"}};
  EXPECT_ERROR(render_llama3_chat(tool), "message 1 has the role \"tool\"");
  const std::vector<ChatMessage> bytes = {{"user", "Hi\xFF"}};
  EXPECT_ERROR(render_llama3_chat(bytes), "message 0 is not UTF-8 at byte 2");
}

}  // namespace
}  // namespace specdec
