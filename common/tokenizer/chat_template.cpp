#include "common/tokenizer/chat_template.h"

#include <algorithm>
#include <optional>
#include <system_error>

#include <fmt/ranges.h>

#include "common/base/error.h"
#include "common/base/fnv1a.h"
#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/base/utf8.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

// golden/tokenizers/make_chat_formats.py names the same templates.
constexpr KnownTemplate kTemplates[] = {
    {922, 0x25db6b08a420443b, "Llama 3.1"},         // the embedded models
    {389, 0x0e60067a5537498e, "Llama 3"},           // Meta-Llama-3-8B-Instruct
    {348, 0x74891e390e614ae2, "Llama 3"},           // the same, as first published
    {484, 0x8cd8b2dba5919cff, "Llama 3"},           // fine-tunes of Llama 3
    {4613, 0xcc0368e1ffb6b958, "Llama 3.1"},        // Llama 3.1 and 3.3
    {3826, 0x368f4c34b8554414, "Llama 3.1"},        // Llama 3.2
    {196, 0x88bf4138d5c826f0, "ChatML"},            // many fine-tunes
    {199, 0xa41d6bae9b9141bc, "ChatML"},            // the same, with line ends as \n
    {291, 0x773d13e188afc917, "ChatML"},            // the same, which sets add_generation_prompt
    {209, 0x89bcbd75ce6a3d28, "ChatML after BOS"},  // fine-tunes of Llama 3
    {368, 0x45ec583d4d25bc3a, "SmolLM2"},           // SmolLM2
    {328, 0x8a87094e0e1e24c5, "Qwen2"},             // Qwen2, and fine-tunes of Llama
    {2506, 0xe642ce246d7f2e3d, "Qwen2.5"},          // Qwen2.5
};

// True also for a dangling link, so that the model does not pass for one without the file.
bool is_there(const fs::path& path) {
  std::error_code unknown;
  return fs::exists(fs::symlink_status(path, unknown));
}

std::string normalised(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!text.substr(i).starts_with("\r\n")) result += text[i];
  }
  if (result.ends_with('\n')) result.pop_back();
  return result;
}

struct ChatTemplate {
  std::string file;
  std::string text;
};

// A list has a template for each use; "default" is for chats without tools.
std::string default_of(const JsonObject& config, const Json& list) {
  for (const Json& entry : list) {
    const JsonObject named(entry, config.name() + ": chat_template");
    if (named.required_string("name") == "default") return named.required_string("template");
  }
  fail("{}: chat_template is a list without a template named \"default\"", config.name());
}

std::optional<ChatTemplate> read_template(const fs::path& directory) {
  const fs::path own_file = directory / "chat_template.jinja";
  if (is_there(own_file)) return ChatTemplate{own_file.string(), read_text_file(own_file)};
  const fs::path file = directory / "tokenizer_config.json";
  if (!is_there(file)) return std::nullopt;
  const Json root = parse_json(read_text_file(file), file.string());
  const JsonObject config(root, file.string());
  const Json* field = config.find("chat_template");
  if (field == nullptr) return std::nullopt;
  if (field->is_array()) return ChatTemplate{file.string(), default_of(config, *field)};
  if (!field->is_string()) config.fail_type("chat_template", "a text or a list of named ones");
  return ChatTemplate{file.string(), field->get<std::string>()};
}

// The text that templates call bos_token; nothing if the file does not name it.
std::optional<std::string> bos_token(const fs::path& directory) {
  const fs::path file = directory / "tokenizer_config.json";
  if (!is_there(file)) return std::nullopt;
  const Json root = parse_json(read_text_file(file), file.string());
  const JsonObject config(root, file.string());
  const Json* field = config.find("bos_token");
  if (field != nullptr && field->is_object()) return config.object("bos_token")->string("content");
  return config.string("bos_token");
}

void check_tokens(const ChatFormat& format, const Tokenizer& tokenizer) {
  if (const auto token = missing_token(format, tokenizer)) {
    fail("the chat format is {}'s, and the tokenizer has no special token {}", format.name, *token);
  }
}

ChatChoice by_template(const ChatTemplate& given, const fs::path& directory,
                       const Tokenizer& tokenizer) {
  const ChatFormat* format = format_of_template(given.text);
  if (format == nullptr) {
    std::vector<std::string_view> names;
    for (const ChatFormat& known : chat_formats()) names.push_back(known.name);
    fail("{}: the chat template {} of {} bytes is unknown; we know those of {}", given.file,
         excerpt(Json(given.text)), given.text.size(), fmt::join(names, ", "));
  }
  check_tokens(*format, tokenizer);
  const std::optional<std::string> bos = bos_token(directory);
  if (!format->beginning.empty() && bos && *bos != format->beginning) {
    fail("{}: bos_token is {}, and chats in the format {} begin with {}",
         (directory / "tokenizer_config.json").string(), in_quotes(*bos), format->name,
         format->beginning);
  }
  return {format, fmt::format("by the template in {}", fs::path(given.file).filename().string())};
}

// Llama 3.1 added both the token <|eom_id|> and the dates.
ChatChoice by_special_tokens(const Tokenizer& tokenizer) {
  const ChatFormat &llama3 = find_chat_format("Llama 3"), &chatml = find_chat_format("ChatML");
  const bool is_llama3 = !missing_token(llama3, tokenizer);
  const bool is_chatml = !missing_token(chatml, tokenizer);
  if (is_llama3 && is_chatml) {
    fail(
        "there is no chat template, and the tokenizer has the special tokens of Llama 3 and those "
        "of ChatML");
  }
  if (!is_llama3 && !is_chatml) {
    fail(
        "there is no chat template, and the tokenizer has neither the special tokens of Llama 3 "
        "({}) nor those of ChatML ({})",
        fmt::join(llama3.special_tokens, " "), fmt::join(chatml.special_tokens, " "));
  }
  const ChatFormat* format = is_chatml ? &chatml : &llama3;
  if (is_llama3 && tokenizer.find_token("<|eom_id|>")) format = &find_chat_format("Llama 3.1");
  return {format, "by the special tokens; there is no chat template"};
}

}  // namespace

std::span<const KnownTemplate> known_templates() { return kTemplates; }

const ChatFormat* format_of_template(std::string_view text) {
  const std::string wanted = normalised(text);
  const std::uint64_t hash = fnv1a(wanted);
  for (const KnownTemplate& known : kTemplates) {
    if (known.length == wanted.size() && known.hash == hash) {
      return &find_chat_format(known.format);
    }
  }
  return nullptr;
}

ChatChoice choose_chat_format(const fs::path& directory, const Tokenizer& tokenizer) {
  try {
    const std::optional<ChatTemplate> given = read_template(directory);
    return given ? by_template(*given, directory, tokenizer) : by_special_tokens(tokenizer);
  } catch (const Error& error) {
    return {nullptr, error.what()};
  }
}

}  // namespace specdec
