#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "common/tokenizer/chat.h"

namespace specdec {

// A chat template is a program in the language Jinja. We do not run it: we know what some published
// templates render, and recognise them by length and hash. golden/tokenizers/chat_formats.jsonl has
// what transformers renders with each of them.
struct KnownTemplate {
  std::size_t length;       // bytes
  std::uint64_t hash;       // fnv1a()
  std::string_view format;  // the name of the ChatFormat that renders the same
};

std::span<const KnownTemplate> known_templates();

// The format that renders what the template renders; nullptr if we do not know the template. As in
// Jinja, it does not matter whether line ends are LF or CRLF, and whether the text ends with one.
const ChatFormat* format_of_template(std::string_view text);

// Which format a model's chats have.
struct ChatChoice {
  const ChatFormat* format = nullptr;  // nullptr: there is none, so no chat can be rendered
  std::string why;                     // why it was chosen, or why there is none
};

// Chooses by the model's chat template, which is chat_template.jinja or the chat_template in
// tokenizer_config.json, and checks that the tokenizer has the format's special tokens. Without a
// template, it chooses by the special tokens. Never throws Error, because most prompts are not
// chats.
ChatChoice choose_chat_format(const std::filesystem::path& directory, const Tokenizer& tokenizer);

}  // namespace specdec
