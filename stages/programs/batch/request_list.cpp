#include "stages/programs/batch/request_list.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <unordered_map>

#include <CLI/CLI.hpp>

#include "common/base/error.h"
#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/base/utf8.h"
#include "common/tokenizer/chat.h"
#include "stages/programs/sampling/speculation_options.h"
#include "stages/programs/speculation/draft_setup.h"

namespace specdec {
namespace {

constexpr double kLatestArrival = 1e6;  // 11 days: clocks that count nanoseconds go far beyond

using Line = const JsonObject&;
using Key = const std::string&;

int integer_in(IntegerRange range, Line line, Key key) {
  const int number = *line.integer(key);
  if (!range.has(number)) {
    fail("{}: {} is {}; it takes a whole number from {} to {}", line.name(), key, number,
         range.lowest, range.highest);
  }
  return number;
}

// A text that is there, where an empty one can only be a mistake.
std::string some_text(Line line, Key key) {
  std::string text = *line.string(key);
  if (text.empty()) fail("{}: {} is empty", line.name(), key);
  return text;
}

// The elements of a list that is there.
const Json& some_list(Line line, Key key, std::string_view wanted) {
  const Json& list = *line.find(key);
  if (!list.is_array()) line.fail_type(key, wanted);
  if (list.empty()) fail("{}: {} is empty", line.name(), key);
  return list;
}

void read_id(Line line, Key key, TimedRequest& request) {
  const Json& id = *line.find(key);
  if (id.is_number_integer()) {
    request.id = id.dump();
  } else if (id.is_string()) {
    request.id = some_text(line, key);
    // Ids stand in lines for people, one line each.
    const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
    if (std::ranges::any_of(request.id, is_control)) {
      fail("{}: {} is {}; it must not have control characters", line.name(), key, excerpt(id));
    }
  } else {
    line.fail_type(key, "a text or a whole number");
  }
}

void read_arrival(Line line, Key key, TimedRequest& request) {
  request.arrival = *line.number(key);
  if (!(request.arrival >= 0 && request.arrival <= kLatestArrival)) {
    fail("{}: {} is {}; it takes a number of seconds from 0 to {}", line.name(), key,
         request.arrival, kLatestArrival);
  }
}

void read_prompt(Line line, Key key, TimedRequest& request) {
  request.options.prompt = some_text(line, key);
  request.options.has_prompt = true;
}

void read_prompt_ids(Line line, Key key, TimedRequest& request) {
  for (const Json& id : some_list(line, key, "a list of token ids")) {
    const std::optional<int> number = as_int(id);
    if (!number) {
      fail("{}: {}[{}] is {}; it must be a token id", line.name(), key,
           request.options.prompt_ids.size(), excerpt(id));
    }
    request.options.prompt_ids.push_back(*number);
  }
}

ChatMessage read_message(const JsonObject& message) {
  const auto role = message.string("role"), content = message.string("content");
  if (!role) message.fail_missing("role");
  if (!content) message.fail_missing("content");
  return {*role, *content};
}

void read_chat(Line line, Key key, TimedRequest& request) {
  RunOptions& options = request.options;
  options.has_chat = true;
  if (line.find(key)->is_string()) {
    options.chat = some_text(line, key);
    return;
  }
  for (const Json& message : some_list(line, key, "a text or a list of messages")) {
    const auto name = fmt::format("{}: {}[{}]", line.name(), key, options.messages.size());
    options.messages.push_back(read_message(JsonObject(message, name)));
  }
  if (line.has("system")) {
    fail("{}: system goes with a chat that is a text; in a list it is the first message",
         line.name());
  }
}

void read_system(Line line, Key key, TimedRequest& request) {
  if (!line.has("chat")) fail("{}: system goes with chat", line.name());
  request.options.system = *line.string(key);
}

void read_stop(Line line, Key key, TimedRequest& request) {
  std::vector<std::string>& stop = request.options.stop;
  stop.clear();
  const Json& texts = *line.find(key);
  if (texts.is_string()) {
    stop.push_back(texts);
  } else if (texts.is_array() && std::ranges::all_of(texts, &Json::is_string)) {
    stop = texts.get<std::vector<std::string>>();
  } else {
    line.fail_type(key, "a text or a list of texts");
  }
  if (std::ranges::find(stop, "") != stop.end()) fail("{}: {} is empty", line.name(), key);
}

void read_seed(Line line, Key key, TimedRequest& request) {
  const Json& seed = *line.find(key);
  if (!seed.is_number_unsigned()) line.fail_type(key, "a whole number from 0 to 2^64 - 1");
  request.options.seed = seed;
}

void read_spec_length(Line line, Key key, TimedRequest& request) {
  RunOptions& options = request.options;
  options.auto_spec_length = *line.find(key) == "auto";
  if (options.auto_spec_length && options.stage < 7) {
    fail("{}: {} auto: K is fixed in this stage; {} chooses it", line.name(), key, stage_name(7));
  }
  options.spec_length =
      options.auto_spec_length ? kLargestAutoSpecLength : integer_in(kSpecLengths, line, key);
}

struct Field {
  std::string_view name;
  void (*read)(Line line, Key key, TimedRequest& request);  // REQUIRES: line.has(key)
};

constexpr Field kFields[] = {
    {"id", read_id},
    {"arrival", read_arrival},
    {"prompt", read_prompt},
    {"prompt_ids", read_prompt_ids},
    {"chat", read_chat},
    {"system", read_system},
    {"max_new_tokens",
     [](Line l, Key k, auto& r) { r.options.max_new_tokens = integer_in(kNewTokens, l, k); }},
    {"ignore_eos", [](Line l, Key k, auto& r) { r.options.ignore_eos = *l.boolean(k); }},
    {"stop", read_stop},
    {"max_context",
     [](Line l, Key k, auto& r) { r.options.max_context = integer_in(kContextSizes, l, k); }},
    {"spec_length", read_spec_length},
    {"no_speculation", [](Line l, Key k, auto& r) { r.options.no_speculation = *l.boolean(k); }},
    {"temperature", [](Line l, Key k, auto& r) { r.options.sampling.temperature = *l.number(k); }},
    {"top_k", [](Line l, Key k, auto& r) { r.options.sampling.top_k = *l.integer(k); }},
    {"top_p", [](Line l, Key k, auto& r) { r.options.sampling.top_p = *l.number(k); }},
    {"repetition_penalty",
     [](Line l, Key k, auto& r) { r.options.sampling.repetition_penalty = *l.number(k); }},
    {"seed", read_seed},
    {"draft_temperature",
     [](Line l, Key k, auto& r) { r.options.draft_temperature = l.number(k); }},
    {"acceptance", [](Line l, Key k, auto& r) { r.options.acceptance = *l.string(k); }},
    {"lenience", [](Line l, Key k, auto& r) { r.options.lenience = *l.number(k); }},
};

// An option that is no field is one of the run's. The command line knows which there are.
[[noreturn]] void fail_unknown(Line line, Key key) {
  RunOptions unused;
  CLI::App app;
  add_run_options(app, 6, unused);
  std::string name = "--" + key;
  std::ranges::replace(name, '_', '-');
  const CLI::Option* option = app.get_option_no_throw(name);
  if (key.find('-') == std::string::npos && option != nullptr && !option->get_group().empty()) {
    fail("{}: {} belongs to the whole run, not to a request; give {} on the command line",
         line.name(), key, name);
  }
  std::string names;
  for (const Field& field : kFields) fmt::format_to(std::back_inserter(names), ", {}", field.name);
  fail("{}: there is no field {}; a request has{}", line.name(), in_quotes(key), names.substr(1));
}

// The options in a message as fields of a line: "--top-p is 2" becomes "top_p is 2".
std::string with_field_names(std::string message) {
  for (std::size_t at = 0; (at = message.find("--", at)) != std::string::npos;) {
    message.erase(at, 2);
    for (;
         at < message.size() && (message[at] == '-' || (message[at] >= 'a' && message[at] <= 'z'));
         at++) {
      if (message[at] == '-') message[at] = '_';
    }
  }
  return message;
}

void check_prompt(Line line) {
  std::vector<std::string> given;
  for (const char* field : {"prompt", "prompt_ids", "chat"}) {
    if (line.has(field)) given.emplace_back(field);
  }
  if (given.empty()) fail("{}: no prompt; give prompt, prompt_ids or chat", line.name());
  if (given.size() > 1) fail("{}: {} excludes {}", line.name(), given[0], given[1]);
}

// What the command line would refuse, the line is refused for.
void check_options(Line line, const RunOptions& options) {
  try {
    check_speculation_options(speculation_options(options));
    if (!options.messages.empty()) static_cast<void>(render_llama3_chat(options.messages));
  } catch (const Error& error) {
    fail("{}: {}", line.name(), with_field_names(error.what()));
  }
}

TimedRequest parse_request(std::string_view text, const std::string& where,
                           const RunOptions& defaults) {
  if (const auto offset = find_invalid_utf8(text)) fail("{}: not UTF-8 at byte {}", where, *offset);
  const Json object = parse_json_line(text, where);
  const JsonObject line(object, where);
  TimedRequest request{.id = {}, .options = defaults, .arrival = 0, .where = where};
  for (const auto& [key, value] : object.items()) {
    const auto* field = std::ranges::find(kFields, key, &Field::name);
    if (field == std::end(kFields)) fail_unknown(line, key);
    if (!value.is_null()) field->read(line, key, request);
  }
  check_prompt(line);
  check_options(line, request.options);
  return request;
}

}  // namespace

std::vector<TimedRequest> parse_requests(std::string_view text, const std::string& name,
                                         const RunOptions& defaults) {
  check_speculation_options(speculation_options(defaults));  // so that no line is blamed for them
  std::vector<TimedRequest> requests;
  std::unordered_map<std::string, int> line_of;  // by id
  int number = 0;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line = text.substr(start, end - start);
    start = end + 1;
    number++;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    TimedRequest request = parse_request(line, fmt::format("{}:{}", name, number), defaults);
    if (request.id.empty()) request.id = std::to_string(requests.size());
    const auto [first, is_new] = line_of.emplace(request.id, number);
    if (!is_new) {
      fail("{}: the id {} is that of line {} already; every request has its own", request.where,
           in_quotes(request.id), first->second);
    }
    requests.push_back(std::move(request));
  }
  if (requests.empty()) fail("{}: there is no request in it", name);
  return requests;
}

std::vector<TimedRequest> read_requests(const std::string& path, const RunOptions& defaults) {
  const auto all_of = [](std::istream& stream) {
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  if (path == "-") return parse_requests(all_of(std::cin), "stdin", defaults);
  if (std::filesystem::is_fifo(path)) {  // as the shell's <(command)
    std::ifstream pipe(path);
    return parse_requests(all_of(pipe), path, defaults);
  }
  return parse_requests(read_text_file(path), path, defaults);
}

BatchRequest to_batch_request(const ModelFiles& target, const RunOptions& options) {
  BatchRequest request;
  request.generation = read_generation_request(target, options);
  request.speculation = speculation_options(options);
  check_speculation_options(request.speculation);
  request.seed = options.seed;
  const SpeculationRoom room = speculation_room(options, target, request.generation);
  request.spec_length = room.spec_length;
  request.context_limit = room.context_limit;
  return request;
}

}  // namespace specdec
