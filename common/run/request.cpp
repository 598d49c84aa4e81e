#include "common/run/request.h"

#include "common/base/error.h"
#include "common/tokenizer/chat.h"

namespace specdec {
namespace {

constexpr std::string_view kBuiltInPrompt = "Once, in the winter, Sunita came to York.";

std::optional<Tokenizer> load_tokenizer(const Checkpoint& checkpoint) {
  const auto path = checkpoint.directory() / "tokenizer.json";
  if (!std::filesystem::exists(path)) return std::nullopt;
  Tokenizer tokenizer = Tokenizer::load(path);
  if (tokenizer.vocab_size() > checkpoint.config().vocab_size) {
    fail("{}: the tokenizer has ids up to {}, but the embedding has {} rows",
         checkpoint.directory().string(), tokenizer.vocab_size() - 1,
         checkpoint.config().vocab_size);
  }
  return tokenizer;
}

std::vector<TokenId> encode_prompt(const Request& request, const RunOptions& options) {
  if (!options.prompt_ids.empty()) return options.prompt_ids;
  if (!request.tokenizer) {
    fail("{}: no tokenizer.json; give the prompt as --prompt-ids",
         request.checkpoint.directory().string());
  }
  if (options.has_chat) {
    if (options.chat.empty()) fail("the prompt is empty");
    std::vector<ChatMessage> messages;
    if (!options.system.empty()) messages.push_back({"system", options.system});
    messages.push_back({"user", options.chat});
    return request.tokenizer->encode(render_llama3_chat(messages), false);
  }
  if (options.has_prompt && options.prompt.empty()) fail("the prompt is empty");
  return request.tokenizer->encode(options.has_prompt ? options.prompt : kBuiltInPrompt);
}

void check_ids(const Request& request) {
  if (request.prompt.empty()) fail("the prompt has no tokens");
  for (const TokenId id : request.prompt) {
    if (id < 0 || id >= request.token_limit) {
      fail("prompt id {} is outside the vocabulary of {} tokens", id, request.token_limit);
    }
  }
}

// Room for the prompt and what is to come, within the model's positions.
int context_of(const Request& request, const RunOptions& options) {
  const auto prompt = static_cast<long long>(request.prompt.size());
  const long long needed = prompt + request.max_new_tokens;
  const int limit = request.checkpoint.config().max_seq_len;
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
  return options.max_context > 0 ? context : static_cast<int>(needed);
}

}  // namespace

Request read_request(const RunOptions& options) {
  Request request{.checkpoint = Checkpoint(options.target)};
  request.tokenizer = load_tokenizer(request.checkpoint);
  request.token_limit =
      request.tokenizer ? request.tokenizer->vocab_size() : request.checkpoint.config().vocab_size;
  request.prompt = encode_prompt(request, options);
  check_ids(request);
  request.max_new_tokens = options.max_new_tokens;
  request.max_context = context_of(request, options);
  if (!options.ignore_eos) request.eos_ids = request.checkpoint.config().eos_ids;
  request.stop = options.stop;
  for (const std::string& text : request.stop) {
    if (text.empty()) fail("--stop: the text is empty");
    if (!request.tokenizer) fail("--stop needs a tokenizer, and the checkpoint has none");
  }
  return request;
}

}  // namespace specdec
