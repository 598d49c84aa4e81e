#include "stages/programs/run/chat_messages.h"

#include "tests/test_support.h"

namespace specdec {
namespace {

using ::testing::HasSubstr;

TEST(ChatMessagesTest, AQuestionHasASystemMessageOrNone) {
  EXPECT_EQ(one_question("Hi", "").size(), 1u);
  const std::vector<ChatMessage> both = one_question("Hi", "Be brief.");
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].role + both[0].content + both[1].role + both[1].content,
            "systemBe brief.userHi");
  EXPECT_ERROR(one_question("", "Be brief."), "the prompt is empty");
}

TEST(ChatFileTest, IsAListOfMessages) {
  const TemporaryDirectory directory;
  const auto path = directory.write(
      "chat.json",
      R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "name": "a"},
          {"role": "user", "content": "é"}])");
  const std::vector<ChatMessage> messages = read_chat_file(path.string());
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[1].role, "assistant");
  EXPECT_EQ(messages[1].content, "");
  EXPECT_EQ(messages[2].content, "é");
}

TEST(ChatFileTest, WhatIsNoChatIsRefusedByName) {
  const TemporaryDirectory directory;
  const auto refusal = [&](std::string_view text) {
    const auto path = directory.write("chat.json", text);
    const std::string message = error_message([&] { read_chat_file(path.string()); });
    EXPECT_THAT(message, ::testing::StartsWith(path.string() + ": ")) << text;
    return message;
  };
  EXPECT_THAT(refusal(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(R"({"role": "user", "content": "Hi"})"),
              HasSubstr(R"(a chat is a list of messages, as [{"role": "user", )"));
  EXPECT_THAT(refusal("[]"), HasSubstr("a chat needs at least one message"));
  EXPECT_THAT(refusal(R"(["Hi"])"), HasSubstr("message[0]: expected an object"));
  EXPECT_THAT(refusal(R"([{"role": "user", "content": "Hi"}, {"role": "user"}])"),
              HasSubstr("message[1]: the field content is missing"));
  EXPECT_THAT(refusal(R"([{"content": "Hi"}])"),
              HasSubstr("message[0]: the field role is missing"));
  EXPECT_THAT(refusal(R"([{"role": "user", "content": [{"type": "text", "text": "Hi"}]}])"),
              HasSubstr("message[0]: content is [{"));
  EXPECT_THAT(refusal(R"([{"role": "tool", "content": "4"}])"),
              HasSubstr(R"(message 0 has the role "tool")"));
  EXPECT_ERROR(read_chat_file((directory.path() / "none.json").string()), "none.json");
}

}  // namespace
}  // namespace specdec
