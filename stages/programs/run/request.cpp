#include "stages/programs/run/request.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/base/mapped_file.h"
#include "common/base/streams.h"
#include "common/base/utf8.h"
#include "stages/programs/run/chat_messages.h"

namespace specdec {
namespace {

constexpr std::string_view kBuiltInPrompt = "Once, in the winter, Sunita came to York.";

// Prints a note, once per run, if the model does not get all bytes of a text.
void say_when_bytes_are_unknown(Tokenizer& tokenizer) {
  const std::optional<TokenId> unknown = tokenizer.unknown_token();
  const std::string fate =
      unknown ? "become " + in_quotes(tokenizer.token_text(*unknown)) : "are left out";
  tokenizer.on_unknown_bytes([fate, said = false](std::size_t bytes) mutable {
    if (said) return;
    said = true;
    say("note: the vocabulary has no token for {} of a text's bytes; such bytes {}\n", bytes, fate);
  });
}

// Throws Error if a token of tokenizer.json has no row. A token that only tokenizer_config.json
// names, often for padding, may have none; then no text may contain it.
void check_rows(const Tokenizer& tokenizer, const std::filesystem::path& path, int rows) {
  if (tokenizer.vocab_size() <= rows) return;
  const TokenId last = Tokenizer::parse(read_text_file(path), path.string()).vocab_size() - 1;
  if (last < rows) return;
  fail("{}: the tokenizer has ids up to {}, but the embedding has {} rows",
       path.parent_path().string(), last, rows);
}

std::optional<Tokenizer> load_tokenizer(const Checkpoint& checkpoint) {
  const auto path = checkpoint.directory() / "tokenizer.json";
  if (!std::filesystem::exists(path)) return std::nullopt;
  Tokenizer tokenizer = Tokenizer::load(path);
  check_rows(tokenizer, path, checkpoint.config().vocab_size);
  say_when_bytes_are_unknown(tokenizer);
  return tokenizer;
}

std::vector<ChatMessage> chat_of(const RunOptions& options) {
  if (!options.chat_file.empty()) return read_chat_file(options.chat_file);
  if (!options.messages.empty()) return options.messages;
  return one_question(options.chat, options.system);
}

std::vector<TokenId> encode_prompt(const ModelFiles& model, const RunOptions& options) {
  if (!options.prompt_ids.empty()) return options.prompt_ids;
  if (!model.tokenizer) {
    fail("{}: no tokenizer.json; give the prompt as --prompt-ids",
         model.checkpoint.directory().string());
  }
  if (options.is_chat()) {
    return model.tokenizer->encode(render_chat(chat_format(model), chat_of(options)), false);
  }
  if (options.has_prompt && options.prompt.empty()) fail("the prompt is empty");
  return model.tokenizer->encode(options.has_prompt ? options.prompt : kBuiltInPrompt);
}

void check_ids(std::span<const TokenId> prompt, const ModelFiles& model) {
  if (prompt.empty()) fail("the prompt has no tokens");
  for (const TokenId id : prompt) {
    if (id >= 0 && id < model.token_limit) continue;
    if (model.tokenizer && model.tokenizer->contains(id)) {
      fail("the prompt contains the token {}, for which the model has no row",
           in_quotes(model.tokenizer->token_text(id)));
    }
    fail("prompt id {} is outside the vocabulary of {} tokens", id, model.token_limit);
  }
}

// The tokens that end the text.
std::vector<TokenId> ends_of(const ModelFiles& model, const RunOptions& options) {
  std::vector<TokenId> ends = model.checkpoint.config().eos_ids;
  if (!options.is_chat()) return ends;
  const TokenId end_of_turn = *model.tokenizer->find_token(model.chat.format->end_of_turn);
  if (std::ranges::find(ends, end_of_turn) == ends.end()) ends.push_back(end_of_turn);
  return ends;
}

// The positions for the prompt and the new tokens, within the model's limit.
int context_of(const GenerationRequest& request, int limit, const RunOptions& options) {
  const long long prompt = request.prompt.size();
  const long long needed = prompt + request.max_new_tokens;
  if (options.max_context > limit) {
    fail("--max-context {} is beyond the model's {} positions", options.max_context, limit);
  }
  const int context = options.max_context > 0 ? options.max_context : limit;
  if (needed > context) {
    fail(
        "a prompt of {} tokens and {} new ones need {} positions; {} {}: reduce --max-new-tokens "
        "or shorten the prompt",
        prompt, request.max_new_tokens, needed,
        options.max_context > 0 ? "--max-context allows" : "the model has", context);
  }
  return options.max_context > 0 ? context : needed;
}

}  // namespace

ModelFiles open_model(const std::string& directory) {
  ModelFiles model{.checkpoint = Checkpoint(directory)};
  model.tokenizer = load_tokenizer(model.checkpoint);
  model.token_limit = model.checkpoint.config().vocab_size;
  if (model.tokenizer) {
    model.chat = choose_chat_format(model.checkpoint.directory(), *model.tokenizer);
    model.token_limit = std::min(model.token_limit, model.tokenizer->vocab_size());
  }
  return model;
}

const ChatFormat& chat_format(const ModelFiles& model) {
  if (model.chat.format == nullptr) {
    fail("--chat: {}; render the chat as the model's authors do, and give the text as --prompt",
         model.chat.why);
  }
  return *model.chat.format;
}

int context_limit(const ModelFiles& model, const RunOptions& options) {
  return options.max_context > 0 ? options.max_context : model.checkpoint.config().max_seq_len;
}

GenerationRequest read_request(const ModelFiles& model, const RunOptions& options) {
  const LlamaConfig& config = model.checkpoint.config();
  GenerationRequest request;
  request.prompt = encode_prompt(model, options);
  check_ids(request.prompt, model);
  request.max_new_tokens = options.max_new_tokens;
  request.max_context = context_of(request, config.max_seq_len, options);
  if (!options.ignore_eos) request.eos_ids = ends_of(model, options);
  request.stop = options.stop;
  for (const std::string& text : request.stop) {
    if (text.empty()) fail("--stop: the text is empty");
    if (!model.tokenizer) fail("--stop needs a tokenizer, and the checkpoint has none");
  }
  return request;
}

}  // namespace specdec
