#include "stages/programs/serve/completion_request.h"

#include <algorithm>
#include <random>
#include <span>
#include <utility>

#include "common/base/error.h"
#include "common/base/json.h"
#include "common/base/utf8.h"
#include "kernels/int_size.h"
#include "stages/programs/batch/request_fields.h"
#include "stages/programs/run/draft_length.h"
#include "stages/programs/sampling/speculation_options.h"
#include "stages/programs/serve/refusal.h"

namespace specdec {
namespace {

constexpr std::size_t kMostStops = 16, kLongestStop = 1024;  // every token is compared with them
constexpr int kMostLogprobs = 20;

// A field of the protocol that is not supported, and the values with which it changes nothing.
struct Unsupported {
  std::string_view field;
  std::vector<Json> harmless;
  std::string_view advice = "";
};

std::span<const Unsupported> unsupported() {
  static const Json kNone = "none", kAuto = "auto", kEmpty = Json::array(),
                    kBraces = Json::object(), kText = Json::parse(R"({"type": "text"})");
  static const Unsupported kFields[] = {{"n", {1}, "; send several requests"},
                                        {"best_of", {1}, ""},
                                        {"echo", {false}, ""},
                                        {"suffix", {""}, ""},
                                        {"frequency_penalty", {0}, "; there is repetition_penalty"},
                                        {"presence_penalty", {0}, "; there is repetition_penalty"},
                                        {"logit_bias", {kBraces, kEmpty}, ""},
                                        {"tools", {kEmpty}, ""},
                                        {"tool_choice", {kNone, kAuto}, ""},
                                        {"functions", {kEmpty}, ""},
                                        {"function_call", {kNone, kAuto}, ""},
                                        {"response_format", {kText}, ""},
                                        {"modalities", {Json::array({"text"})}, ""},
                                        {"audio", {}, ""},
                                        {"prediction", {}, ""},
                                        {"prompt_ids", {}, "; give the ids as prompt"},
                                        {"chat", {}, "; give messages"},
                                        {"system", {}, "; give messages"}};
  return kFields;
}

// One body, field by field.
class Reading {
 public:
  Reading(const Json& body, RunOptions options, const std::string& model, bool is_chat)
      : body_(body, "the request"),
        model_(model),
        options_(std::move(options)),
        declared_(all_options(options_.stage, options_)) {
    request_.is_chat = is_chat;
  }

  void read(const std::string& field);
  void check() const;
  CompletionRequest finish(const ModelFiles& files, const MakeBatchRequest& make);

 private:
  void read_model();
  void read_prompt();
  void read_messages();
  void read_stream_options();
  void read_logprobs();
  void read_top_logprobs();
  int count_of_logprobs(const std::string& field) const;
  void read_option(const Option& option, const std::string& field);
  const Json& value(const std::string& field) const { return *body_.find(field); }
  BatchRequest make_batch(const ModelFiles& files, const MakeBatchRequest& make);
  std::string with_own_fields(std::string message) const;
  std::string field_of(std::string_view message) const;

  JsonObject body_;
  const std::string& model_;
  RunOptions options_;
  std::vector<Option> declared_;  // they set the members of options_
  std::string length_field_;      // "": the request leaves its length open
  bool has_seed_ = false;
  CompletionRequest request_;
};

void Reading::read(const std::string& field) {
  using Read = void (Reading::*)();
  static constexpr std::pair<std::string_view, Read> kOwn[] = {
      {"model", &Reading::read_model},
      {"stream_options", &Reading::read_stream_options},
      {"logprobs", &Reading::read_logprobs},
      {"top_logprobs", &Reading::read_top_logprobs}};
  if (!body_.has(field)) return;  // null
  for (const Unsupported& other : unsupported()) {
    if (other.field != field || std::ranges::count(other.harmless, value(field)) > 0) continue;
    fail("{} is {}, which this server does not support{}", field, excerpt(value(field)),
         other.advice);
  }
  if (field == (request_.is_chat ? "messages" : "prompt")) {
    return request_.is_chat ? read_messages() : read_prompt();
  }
  for (const auto& [name, read] : kOwn) {
    if (name == field) return (this->*read)();
  }
  if (field == "stream") request_.stream = *body_.boolean(field);
  if (field == "rounds") request_.rounds = *body_.boolean(field);
  const bool is_length = field == "max_tokens" || field == "max_completion_tokens";
  if (is_length) length_field_ = field;
  const std::string name = is_length ? "max_new_tokens" : field;
  const auto option = std::ranges::find(declared_, name, &Option::field);
  if (option != declared_.end() && field != "prompt") read_option(*option, field);
}

void Reading::read_option(const Option& option, const std::string& field) {
  const std::string why_not = why_no_option(option, options_.stage, field);
  if (!why_not.empty()) fail("{}", why_not);
  if (!option.traits.per_request) {
    fail("{} belongs to the whole server, not to a request; its command line has {}", field,
         option.name());
  }
  Option named = option;  // by the field that the client used
  std::string usage = "--" + field;
  std::ranges::replace(usage, '_', '-');
  named.usage = usage;
  read_option_field(named, options_.stage, body_);
  has_seed_ = has_seed_ || field == "seed";
}

void Reading::read_model() {
  const std::string name = *body_.string("model");
  if (name == model_) return;
  throw Refusal(404,
                fmt::format("there is no model {} here; this server has {}", in_quotes(name),
                            in_quotes(model_)),
                "model", "model_not_found");
}

bool are_ids(const Json& list) {
  return list.is_array() && list.size() > 0 &&
         std::ranges::all_of(list, [](const Json& id) { return as_int(id).has_value(); });
}

void Reading::read_prompt() {
  const Json* prompt = &value("prompt");
  const bool of_one = prompt->is_array() && prompt->size() == 1 && !are_ids(*prompt);
  if (of_one) prompt = &prompt->at(std::size_t{0});
  if (prompt->is_string()) {
    options_.prompt = prompt->get<std::string>();
    options_.has_prompt = true;
  } else if (are_ids(*prompt)) {
    for (const Json& id : *prompt) options_.prompt_ids.push_back(*as_int(id));
  } else if (prompt->is_array() && prompt->size() > 1) {
    fail("prompt has {} prompts; send each in a request of its own", prompt->size());
  } else {
    fail("prompt is {}; it must be a text or a list of token ids", excerpt(*prompt));
  }
}

// A content is a text, or a list of parts, of which each must be a text.
std::string content_of(const Json& content, const std::string& name) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) fail("{} is {}; it must be a text", name, excerpt(content));
  std::string text;
  for (std::size_t i = 0; i < content.size(); i++) {
    const JsonObject part(content[i], fmt::format("{}[{}]", name, i));
    if (const std::string type = part.required_string("type"); type != "text") {
      fail("{}: the type {} is not supported; this model reads text", part.name(), in_quotes(type));
    }
    text += part.required_string("text");
  }
  return text;
}

void Reading::read_messages() {
  for (const Json& entry : some_list(body_, "messages", "a list of messages")) {
    const std::string name = fmt::format("messages[{}]", options_.messages.size());
    const JsonObject message(entry, name);
    std::string role = message.required_string("role");
    if (role == "developer") role = "system";
    if (!message.has("content")) message.fail_missing("content");
    options_.messages.push_back(
        {std::move(role), content_of(*message.find("content"), name + ".content")});
  }
  options_.has_chat = true;
  check_chat(options_.messages);
}

void Reading::read_stream_options() {
  const JsonObject options = *body_.object("stream_options");
  request_.include_usage = options.boolean("include_usage").value_or(false);
}

int Reading::count_of_logprobs(const std::string& field) const {
  const int count = *body_.integer(field);
  if (count < 0 || count > kMostLogprobs) {
    fail("{} is {}; it takes a whole number from 0 to {}", field, count, kMostLogprobs);
  }
  return count;
}

// A chat says whether it wants them, and in top_logprobs how many; a completion says how many.
void Reading::read_logprobs() {
  if (!request_.is_chat) {
    request_.logprobs = count_of_logprobs("logprobs");
  } else if (*body_.boolean("logprobs") && !body_.has("top_logprobs")) {
    request_.logprobs = 0;
  }
}

void Reading::read_top_logprobs() {
  const bool wanted = request_.is_chat && body_.boolean("logprobs").value_or(false);
  if (!wanted) fail("top_logprobs goes with \"logprobs\": true of a chat");
  request_.logprobs = count_of_logprobs("top_logprobs");
}

// What no single field tells.
void Reading::check() const {
  const bool has_prompt = options_.has_prompt || !options_.prompt_ids.empty();
  const std::string prompt = request_.is_chat ? "messages" : "prompt";
  if (!has_prompt && !options_.has_chat) {
    throw Refusal(400, fmt::format("the request has no {}", prompt), prompt);
  }
  if (body_.has("stream_options") && !request_.stream) {
    throw Refusal(400, "stream_options goes with stream", "stream_options");
  }
  if (options_.stop.size() > kMostStops || std::ranges::any_of(options_.stop, [](const auto& text) {
        return text.size() > kLongestStop;
      })) {
    throw Refusal(400,
                  fmt::format("stop takes at most {} texts of {} bytes", kMostStops, kLongestStop),
                  "stop");
  }
}

// A message with the names of the client's fields. Its length may have another name, or none: then
// only the prompt can be shortened.
std::string Reading::with_own_fields(std::string message) const {
  message = with_field_names(std::move(message));
  const std::string field = "max_new_tokens", advice = "reduce " + field + " or ";
  if (const auto at = message.find(advice); at != message.npos) {
    const std::string own = length_field_.empty() ? "" : "reduce " + length_field_ + " or ";
    message.replace(at, advice.size(), own);
  }
  return message;
}

// The field that a message is about: the option that it begins with, or else the prompt.
std::string Reading::field_of(std::string_view message) const {
  const std::string field = field_in(message);
  if (field == "max_new_tokens" && !length_field_.empty()) return length_field_;
  if (!field.empty() && field != "chat") return field;
  return request_.is_chat ? "messages" : "prompt";
}

BatchRequest Reading::make_batch(const ModelFiles& files, const MakeBatchRequest& make) {
  try {
    check_speculation_options(speculation_options(options_));
    check_draft_length(options_);
    return make(files, options_);
  } catch (const Error& error) {
    const std::string message = with_own_fields(error.what());
    if (message.find(" positions;") == message.npos) {
      throw Refusal(400, message, field_of(error.what()));
    }
    throw Refusal(400, message, length_field_.empty() ? field_of("") : length_field_,
                  "context_length_exceeded");
  }
}

CompletionRequest Reading::finish(const ModelFiles& files, const MakeBatchRequest& make) {
  if (!has_seed_) options_.seed = std::random_device()();
  const int usual_length = options_.max_new_tokens;
  if (length_field_.empty()) options_.max_new_tokens = 1;
  request_.batch = make_batch(files, make);
  if (length_field_.empty()) {  // as usual, or as much as fits
    GenerationRequest& generation = request_.batch.generation;
    const int prompt = int_size(generation.prompt);
    generation.max_new_tokens = std::min(usual_length, request_.batch.context_limit - prompt);
    generation.max_context = prompt + generation.max_new_tokens;
  }
  request_.batch.is_chat = request_.is_chat;
  return std::move(request_);
}

}  // namespace

CompletionReader::CompletionReader(RunOptions defaults, const ModelFiles& files, std::string model,
                                   MakeBatchRequest make)
    : defaults_(std::move(defaults)),
      files_(files),
      model_(std::move(model)),
      make_(std::move(make)) {}

CompletionRequest CompletionReader::read(std::string_view text, bool is_chat) const {
  std::string field;
  try {
    if (const auto offset = find_invalid_utf8(text)) {
      fail("the request is not UTF-8 at byte {}", *offset);
    }
    const Json body = parse_json(text, "the request");
    Reading reading(body, defaults_, model_, is_chat);
    for (const auto& [name, value] : body.items()) reading.read(field = name);
    field.clear();
    reading.check();
    return reading.finish(files_, make_);
  } catch (const Error& error) {
    throw Refusal(400, error.what(), field);
  }
}

std::vector<std::string> CompletionReader::options() const {
  RunOptions unused = defaults_;
  std::vector<std::string> names;
  for (const Option& option : options_of_stage(defaults_.stage, unused)) {
    const std::string name = option.field();
    const bool own = std::ranges::count(unsupported(), name, &Unsupported::field) > 0;
    if (option.traits.per_request && !own && name != "prompt") names.push_back(name);
  }
  return names;
}

}  // namespace specdec
