// Opens a checkpoint and shows its contents: its shape, its weights, the size of its cache, and how
// its tokenizer cuts a text. Use it to look at a model before a stage runs it.
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/color.h>
#include <fmt/format.h>

#include "common/base/error.h"
#include "common/base/json_value.h"
#include "common/base/terminal.h"
#include "common/base/utf8.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/grouped_tensor.h"
#include "common/embedded_models.h"
#include "common/tokenizer/chat.h"
#include "common/tokenizer/tokenizer.h"
#include "stages/programs/run/chat_messages.h"
#include "stages/programs/run/command_line.h"
#include "stages/programs/run/request.h"
#include "stages/programs/show/report.h"

namespace specdec {
namespace {

struct Options {
  std::string target = embedded_target().string();
  std::string prompt = "Zoë bought 12 pears — and 3 lemons 🍋.";
  std::string chat;
  bool has_chat = false;  // perhaps as an empty text
  std::string system;
  std::string chat_file;
  bool tensors = false;
  bool ids = false;
  OutputFormat output = OutputFormat::kText;

  bool is_chat() const { return has_chat || !chat_file.empty(); }
  std::vector<ChatMessage> messages() const {
    return chat_file.empty() ? one_question(chat, system) : read_chat_file(chat_file);
  }
};

CommandLine command_line(Options& options) {
  return {
      .program = "inspect",
      .description = "Opens a checkpoint and shows what is in it.",
      .options = {
          {"--target DIR", "checkpoint directory in Hugging Face's layout", &options.target},
          {"--prompt TEXT", "text to cut into tokens", &options.prompt},
          {"--chat TEXT",
           "the same, as a user's message in a chat",
           GivenText{&options.chat, &options.has_chat},
           {.excludes = {"--prompt"}}},
          {"--system TEXT", "the chat's system message", &options.system, {.needs = {"--chat"}}},
          {"--chat-file FILE",
           "the same, as a chat of several turns: a JSON list of messages with role and content",
           &options.chat_file,
           {.excludes = {"--prompt", "--chat"}}},
          {"--tensors", "list every tensor with its type and shape", &options.tensors},
          {"--ids", "print the token ids of the text alone", &options.ids},
          {"--output FORMAT", "text or json", one_of(&options.output)},
      }};
}

// A text and its tokens.
struct Encoded {
  std::string text;
  std::vector<TokenId> ids;
  bool decodes_back = false;
};

Encoded encode_prompt(const ModelFiles& model, const Options& options) {
  const Tokenizer& tokenizer = *model.tokenizer;
  Encoded result;
  if (!options.is_chat()) {
    result.text = options.prompt;
    result.ids = tokenizer.encode(result.text);
    result.decodes_back = tokenizer.decode(result.ids) == result.text;
  } else {
    result.text = render_chat(chat_format(model), options.messages());
    result.ids = tokenizer.encode(result.text, false);
    result.decodes_back = tokenizer.decode(result.ids, false) == result.text;
  }
  return result;
}

struct Totals {
  std::int64_t parameters = 0;  // a tied head counts once
  std::int64_t bytes = 0;
};

std::int64_t parameters_of(const TensorEntry& tensor) {
  const std::int64_t bytes = tensor.end - tensor.begin;
  const auto grouped = grouped_type(tensor.name);
  return grouped ? bytes / group_bytes(*grouped) * 32 : bytes * 8 / dtype_bits(tensor.dtype);
}

Totals count_weights(const Checkpoint& checkpoint) {
  Totals totals;
  for (const SafetensorsFile& file : checkpoint.files()) {
    for (const TensorEntry& tensor : file.header().tensors) {
      totals.bytes += tensor.end - tensor.begin;
      totals.parameters += parameters_of(tensor);
    }
  }
  return totals;
}

// Bytes of the keys and values of one token, in float32.
std::int64_t cache_bytes_per_token(const LlamaConfig& config) {
  const KvShape shape{config.n_layers, config.n_kv_heads, config.head_dim};
  return shape.bytes_per_token();
}

// 1234567 as "1,234,567".
std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (auto i = std::ssize(digits) - 3; i > 0; i -= 3) {
    digits.insert(i, 1, ',');
  }
  return digits;
}

// "1 file", "2 files".
std::string count(std::size_t number, std::string_view thing) {
  return fmt::format("{} {}{}", number, thing, number == 1 ? "" : "s");
}

// The path relative to the current directory, if it is inside that directory.
std::string short_path(const std::filesystem::path& path) {
  std::error_code no_directory;  // the current one may have been deleted
  const std::filesystem::path here = std::filesystem::current_path(no_directory);
  if (no_directory) return path.string();
  const std::string relative = std::filesystem::proximate(path, here, no_directory).string();
  return no_directory || relative.starts_with("..") ? path.string() : relative;
}

// "BF16", or "Q8_0 and Q4_1": of the embedding and of the layers.
std::string types_of_matrices(const LlamaWeights& weights) {
  const std::string_view first = dtype_name(weights.embedding.dtype);
  const std::string_view layers = dtype_name(weights.layers.front().q_proj.dtype);
  return first == layers ? std::string(first) : fmt::format("{} and {}", first, layers);
}

std::string describe_rope(const LlamaConfig& config) {
  const std::string theta = fmt::format("RoPE with theta {}", config.rope_theta);
  if (!config.rope_scaling) return theta;
  return fmt::format("{}, llama3 scaling by {} beyond {}", theta, config.rope_scaling->factor,
                     config.rope_scaling->original_max_seq_len);
}

void print_checkpoint(const ModelFiles& model) {
  const Checkpoint& checkpoint = model.checkpoint;
  const Tokenizer* tokenizer = model.tokenizer_or_null();
  const LlamaConfig& config = checkpoint.config();
  const Totals totals = count_weights(checkpoint);
  const auto row = [](const char* name, const std::string& value) {
    fmt::print("  {:<12}{}\n", name, value);
  };
  fmt::print("{}\n", short_path(checkpoint.directory()));
  row("shape",
      fmt::format("{} layers, d_model {}, d_ff {}", config.n_layers, config.d_model, config.d_ff));
  row("heads", fmt::format("{} query heads on {} KV heads, head_dim {}", config.n_heads,
                           config.n_kv_heads, config.head_dim));
  row("positions", fmt::format("up to {}, {}", config.max_seq_len, describe_rope(config)));
  row("vocabulary", fmt::format("{} rows for {}, {} head", config.vocab_size,
                                tokenizer != nullptr ? count(tokenizer->token_count(), "token")
                                                     : "token ids (there is no tokenizer.json)",
                                config.tied_head ? "tied" : "own"));
  row("weights", fmt::format("{} parameters, {} bytes, {} in {} file{}", grouped(totals.parameters),
                             grouped(totals.bytes), types_of_matrices(checkpoint.weights()),
                             checkpoint.files().size(), checkpoint.files().size() == 1 ? "" : "s"));
  row("KV cache",
      fmt::format("{} bytes per token in float32, {} for {} positions",
                  grouped(cache_bytes_per_token(config)),
                  grouped(cache_bytes_per_token(config) * config.max_seq_len), config.max_seq_len));
  std::vector<std::string> ends;
  for (const TokenId id : config.eos_ids) {
    if (tokenizer == nullptr) {
      ends.push_back(fmt::format("{}", id));
    } else {
      const bool known = tokenizer->contains(id);
      ends.push_back(fmt::format("{} {}", id, known ? tokenizer->token_text(id) : "(no token)"));
    }
  }
  row("ends with", ends.empty() ? "no token" : fmt::format("{}", fmt::join(ends, ", ")));
  if (tokenizer == nullptr) return;
  const ChatChoice& chat = model.chat;
  row("chats", chat.format == nullptr ? "none: " + chat.why
                                      : fmt::format("as {}, {}", chat.format->name, chat.why));
}

void print_tensors(const Checkpoint& checkpoint) {
  for (const SafetensorsFile& file : checkpoint.files()) {
    fmt::print("\n{}\n", file.name());
    for (const TensorEntry& tensor : file.header().tensors) {
      fmt::print("  {:<5}{:<18}{}\n", dtype_name(tensor.dtype),
                 fmt::format("[{}]", fmt::join(tensor.shape, ", ")), tensor.name);
    }
  }
}

// A token in printable form: line ends as \n, and other control characters, as well as the bytes of
// a character that is cut between tokens, as <E2>.
std::string visible(std::string_view bytes) {
  const bool whole_characters = !find_invalid_utf8(bytes);
  std::string result;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    if (value == '\n') {
      result += "\\n";
    } else if (value < 0x20 || value == 0x7F || (value >= 0x80 && !whole_characters)) {
      result += fmt::format("<{:02X}>", value);
    } else {
      result += byte;
    }
  }
  return result;
}

// Prints the text with its tokens separated: by colours on a terminal, by bars elsewhere.
void print_tokens(const Tokenizer& tokenizer, const Encoded& encoded) {
  const bool colour = use_colour(stdout);
  fmt::print("\n{} for {}; decoded back to the same text: {}\n  ",
             count(encoded.ids.size(), "token"), count(encoded.text.size(), "byte"),
             encoded.decodes_back ? "yes" : "no");
  for (std::size_t i = 0; i < encoded.ids.size(); ++i) {
    const std::string piece = visible(tokenizer.token_bytes(encoded.ids[i]));
    if (colour) {
      const auto shade = i % 2 == 0 ? fmt::terminal_color::cyan : fmt::terminal_color::yellow;
      fmt::print("{}", fmt::format(fmt::fg(shade), "{}", piece));
    } else {
      fmt::print("{}{}", i == 0 ? "" : "|", piece);
    }
  }
  fmt::print("\n  {}\n", fmt::join(encoded.ids, " "));
}

Json to_json(const ModelFiles& files, const std::optional<Encoded>& encoded) {
  const Checkpoint& checkpoint = files.checkpoint;
  const Totals totals = count_weights(checkpoint);
  Json model = to_json(checkpoint.config(), checkpoint.directory().string());
  model["parameters"] = totals.parameters;
  model["weight_bytes"] = totals.bytes;
  if (files.chat.format != nullptr) model["chat_format"] = files.chat.format->name;
  Json json = {{"model", model}};
  if (encoded) {
    json["text"] = encoded->text;
    json["tokens"] = encoded->ids;
    json["decodes_back"] = encoded->decodes_back;
  }
  return json;
}

int inspect(const Options& options) {
  const ModelFiles model = open_model(options.target);
  const bool has_text = options.prompt != Options().prompt || options.is_chat() || options.ids;
  if (!model.tokenizer && has_text) {
    fail("{}: no tokenizer.json, so no text can be cut into tokens", options.target);
  }
  std::optional<Encoded> encoded;
  if (model.tokenizer) encoded = encode_prompt(model, options);
  if (options.output == OutputFormat::kJson) {
    fmt::print("{}\n", to_json(model, encoded).dump());
  } else if (options.ids) {
    fmt::print("{}\n", fmt::join(encoded->ids, ","));
  } else {
    print_checkpoint(model);
    if (options.tensors) print_tensors(model.checkpoint);
    if (encoded) print_tokens(*model.tokenizer, *encoded);
  }
  return kGood;
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  specdec::Options options;
  return specdec::run_program(specdec::command_line(options), argc, argv,
                              [&] { return specdec::inspect(options); });
}
