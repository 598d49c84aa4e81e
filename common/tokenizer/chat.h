#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/tokenizer/tokenizer.h"

namespace specdec {

struct ChatMessage {
  std::string role;     // "system", "user" or "assistant"
  std::string content;  // UTF-8
};

// How a conversation becomes the text that a family of models was trained on. A format renders what
// the family's chat templates render when there are no tools.
struct ChatFormat {
  std::string_view name;
  std::span<const std::string_view> special_tokens;  // those in the text
  std::string_view beginning;                        // of the text
  // A message is before_role, its role, before_content, its content, after_content.
  std::string_view before_role, before_content, after_content;
  std::string_view end_of_turn;  // the special token in after_content that ends an answer
  bool trims = false;            // white space at both ends of a content is dropped
  bool has_dates = false;  // the chat begins with a system message, whose first two lines are dates
  std::string_view default_system = "";  // if the first message is not the system's; "": none
};

// All known formats.
std::span<const ChatFormat> chat_formats();

// REQUIRES: there is one of that name.
const ChatFormat& find_chat_format(std::string_view name);

struct ChatOptions {
  // "Today Date" in formats with dates. A fixed day rather than today's, so that the same chat
  // gives the same tokens tomorrow; it is the default in the template of Llama 3.1.
  std::string date = "26 Jul 2024";
  // Ends the text with the header of an assistant turn, which the model continues.
  bool add_generation_prompt = true;
};

// Throws Error unless the messages are a conversation: at least one, known roles, contents in
// UTF-8.
void check_chat(std::span<const ChatMessage> messages);

// A conversation as text. It has the format's special tokens, <|begin_of_text|> among them, so
// encode it with add_special_tokens = false. As in transformers, nothing is escaped: a content with
// "<|eot_id|>" in it ends its turn. Throws Error as check_chat().
std::string render_chat(const ChatFormat& format, std::span<const ChatMessage> messages,
                        const ChatOptions& options = {});

// A special token of the format that the tokenizer lacks; nothing if it has them all. As ordinary
// text, such a token would mean nothing to the model.
std::optional<std::string_view> missing_token(const ChatFormat& format, const Tokenizer& tokenizer);

}  // namespace specdec
