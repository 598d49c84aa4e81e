#include "common/tokenizer/chat.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/utf8.h"

namespace specdec {
namespace {

constexpr std::string_view kLlama3Tokens[] = {"<|begin_of_text|>", "<|start_header_id|>",
                                              "<|end_header_id|>", "<|eot_id|>"};
constexpr std::string_view kChatMlTokens[] = {"<|im_start|>", "<|im_end|>"};
constexpr std::string_view kChatMlTokensAndBos[] = {"<|begin_of_text|>", "<|im_start|>",
                                                    "<|im_end|>"};

constexpr ChatFormat kLlama3{.name = "Llama 3",
                             .special_tokens = kLlama3Tokens,
                             .beginning = "<|begin_of_text|>",
                             .before_role = "<|start_header_id|>",
                             .before_content = "<|end_header_id|>\n\n",
                             .after_content = "<|eot_id|>",
                             .end_of_turn = "<|eot_id|>",
                             .trims = true};

constexpr ChatFormat kChatMl{.name = "ChatML",
                             .special_tokens = kChatMlTokens,
                             .beginning = "",
                             .before_role = "<|im_start|>",
                             .before_content = "\n",
                             .after_content = "<|im_end|>\n",
                             .end_of_turn = "<|im_end|>"};

constexpr ChatFormat llama31() {
  ChatFormat format = kLlama3;
  format.name = "Llama 3.1";  // and 3.2, 3.3
  format.has_dates = true;
  return format;
}

constexpr ChatFormat chatml_after_bos() {
  ChatFormat format = kChatMl;
  format.name = "ChatML after BOS";
  format.special_tokens = kChatMlTokensAndBos;
  format.beginning = "<|begin_of_text|>";
  return format;
}

constexpr ChatFormat chatml_of(std::string_view name, std::string_view default_system) {
  ChatFormat format = kChatMl;
  format.name = name;
  format.default_system = default_system;
  return format;
}

constexpr ChatFormat kFormats[] = {
    kLlama3,
    llama31(),
    kChatMl,
    chatml_after_bos(),
    chatml_of("SmolLM2", "You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
    chatml_of("Qwen2", "You are a helpful assistant."),
    chatml_of("Qwen2.5", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
};

// A conversation on its way to text.
class Rendering {
 public:
  Rendering(const ChatFormat& format, const ChatOptions& options)
      : format_(format), options_(options), text_(format.beginning) {}

  // A message as a turn of its own.
  void add(const ChatMessage& message) { add_turn(message.role, content_of(message)); }

  // What comes before all other messages. `system`: the first message, if it is the system's.
  void begin(const ChatMessage* system) {
    if (format_.has_dates) {
      add_turn("system", fmt::format("Cutting Knowledge Date: December 2023\nToday Date: {}\n\n{}",
                                     options_.date, system == nullptr ? "" : content_of(*system)));
    } else if (system != nullptr) {
      add(*system);
    } else if (!format_.default_system.empty()) {
      add_turn("system", format_.default_system);
    }
  }

  std::string finish() {
    if (options_.add_generation_prompt) add_header("assistant");
    return std::move(text_);
  }

 private:
  std::string_view content_of(const ChatMessage& message) const {
    return format_.trims ? trim_like_python(message.content) : message.content;
  }

  void add_header(std::string_view role) {
    text_.append(format_.before_role).append(role).append(format_.before_content);
  }

  void add_turn(std::string_view role, std::string_view content) {
    add_header(role);
    text_.append(content).append(format_.after_content);
  }

  const ChatFormat& format_;
  const ChatOptions& options_;
  std::string text_;
};

}  // namespace

std::span<const ChatFormat> chat_formats() { return kFormats; }

const ChatFormat& find_chat_format(std::string_view name) {
  const auto* found = std::ranges::find(kFormats, name, &ChatFormat::name);
  SPECDEC_CHECK(found != std::end(kFormats), "a chat format named {}", name);
  return *found;
}

void check_chat(std::span<const ChatMessage> messages) {
  if (messages.empty()) fail("a chat needs at least one message");
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    if (message.role != "system" && message.role != "user" && message.role != "assistant") {
      fail("message {} has the role {}; a chat has \"system\", \"user\" and \"assistant\"", i,
           in_quotes(message.role));
    }
    if (const auto offset = find_invalid_utf8(message.content)) {
      fail("message {} is not UTF-8 at byte {}", i, *offset);
    }
  }
}

std::string render_chat(const ChatFormat& format, std::span<const ChatMessage> messages,
                        const ChatOptions& options) {
  check_chat(messages);
  Rendering rendering(format, options);
  const bool system_first = messages.front().role == "system";
  rendering.begin(system_first ? &messages.front() : nullptr);
  for (const ChatMessage& message : messages.subspan(system_first ? 1 : 0)) rendering.add(message);
  return rendering.finish();
}

std::optional<std::string_view> missing_token(const ChatFormat& format,
                                              const Tokenizer& tokenizer) {
  for (const std::string_view token : format.special_tokens) {
    const std::optional<TokenId> id = tokenizer.find_token(token);
    if (!id || !tokenizer.is_special(*id)) return token;
  }
  return std::nullopt;
}

}  // namespace specdec
