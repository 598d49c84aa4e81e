#pragma once
#include <span>
#include <string>
#include <vector>

#include "common/tokenizer/tokenizer.h"

namespace specdec {

struct ChatMessage {
  std::string role;     // "system", "user" or "assistant"
  std::string content;  // UTF-8; white space at both ends is dropped
};

struct ChatOptions {
  // "Today Date" in the header that every Llama 3 chat begins with. A fixed day rather than
  // today's, so that the same chat gives the same tokens tomorrow; it is the template's own
  // default.
  std::string date = "26 Jul 2024";
  // Ends with the header of an assistant turn, for the model to go on from.
  bool add_generation_prompt = true;
};

// A conversation as Llama 3.2's chat template renders it, without tools. The text begins with
// <|begin_of_text|>, so encode it with add_special_tokens = false. A system message that comes
// first joins the header; later ones are turns like the others. As in transformers, nothing is
// escaped: a content with "<|eot_id|>" in it ends its turn. Errors: no messages; another role; a
// role or content that is not UTF-8. Source: the chat_template of Meta's tokenizer_config.json for
// Llama-3.2-1B- and 3B-Instruct.
std::string render_llama3_chat(std::span<const ChatMessage> messages,
                               const ChatOptions& options = {});

// The tokens of such a conversation. Throws Error, naming it, where the tokenizer lacks a special
// token of the template: as ordinary text, a chat would mean nothing to the model.
std::vector<TokenId> encode_llama3_chat(const Tokenizer& tokenizer,
                                        std::span<const ChatMessage> messages);

}  // namespace specdec
