#include "common/tokenizer/chat.h"

#include <optional>
#include <string_view>

#include "common/base/error.h"
#include "common/base/utf8.h"

namespace specdec {
namespace {

void check(const ChatMessage& message, std::size_t index) {
  if (message.role != "system" && message.role != "user" && message.role != "assistant") {
    fail("message {} has the role {}; a chat has \"system\", \"user\" and \"assistant\"", index,
         in_quotes(message.role));
  }
  if (const auto offset = find_invalid_utf8(message.content)) {
    fail("message {} is not UTF-8 at byte {}", index, *offset);
  }
}

std::string header(std::string_view role) {
  return fmt::format("<|start_header_id|>{}<|end_header_id|>\n\n", role);
}

}  // namespace

std::string render_llama3_chat(std::span<const ChatMessage> messages, const ChatOptions& options) {
  if (messages.empty()) fail("a chat needs at least one message");
  for (std::size_t i = 0; i < messages.size(); ++i) check(messages[i], i);

  std::string text = "<|begin_of_text|>" + header("system");
  text += "Cutting Knowledge Date: December 2023\n";
  text += fmt::format("Today Date: {}\n\n", options.date);
  if (messages.front().role == "system") {
    text += trim_like_python(messages.front().content);
    messages = messages.subspan(1);
  }
  text += "<|eot_id|>";
  for (const ChatMessage& message : messages) {
    text += header(message.role);
    text += trim_like_python(message.content);
    text += "<|eot_id|>";
  }
  if (options.add_generation_prompt) text += header("assistant");
  return text;
}

std::vector<TokenId> encode_llama3_chat(const Tokenizer& tokenizer,
                                        std::span<const ChatMessage> messages) {
  for (const char* token :
       {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}) {
    const std::optional<TokenId> id = tokenizer.find_token(token);
    if (!id || !tokenizer.is_special(*id)) {
      fail("--chat needs Llama 3's special tokens, and the tokenizer has no {}; use --prompt",
           token);
    }
  }
  return tokenizer.encode(render_llama3_chat(messages), false);
}

}  // namespace specdec
