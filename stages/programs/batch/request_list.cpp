#include "stages/programs/batch/request_list.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <new>
#include <span>
#include <unordered_map>

#include "common/base/error.h"
#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/base/memory.h"
#include "common/base/utf8.h"
#include "common/tokenizer/chat.h"
#include "stages/programs/batch/request_fields.h"
#include "stages/programs/run/chat_messages.h"
#include "stages/programs/run/draft_length.h"
#include "stages/programs/sampling/speculation_options.h"

namespace specdec {
namespace {

constexpr std::size_t kMostBytes = 256 << 20, kMostRequests = 100'000;
constexpr double kLatestArrival = 1e6;  // 11 days; a clock in nanoseconds does not overflow

using Line = const JsonObject&;
using Key = const std::string&;

void read_id(Line line, Key key, RunOptions& request) {
  const Json& id = *line.find(key);
  if (id.is_number_integer()) {
    request.id = id.dump();
  } else if (id.is_string()) {
    request.id = some_text(line, key);
    // Messages contain ids and must stay on one line.
    const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
    if (std::ranges::any_of(request.id, is_control)) {
      fail("{}: {} is {}; it must not have control characters", line.name(), key, excerpt(id));
    }
  } else {
    line.fail_type(key, "a text or a whole number");
  }
}

void read_arrival(Line line, Key key, RunOptions& request) {
  request.arrival = *line.number(key);
  if (!(request.arrival >= 0 && request.arrival <= kLatestArrival)) {
    fail("{}: {} is {}; it takes a number of seconds from 0 to {}", line.name(), key,
         request.arrival, kLatestArrival);
  }
}

// Reads a chat that is a list of messages, not a text as on the command line.
void read_chat_list(Line line, Key key, RunOptions& options) {
  options.has_chat = true;
  options.messages = read_messages(some_list(line, key, "a text or a list of messages"),
                                   fmt::format("{}: {}", line.name(), key));
  if (line.has("system")) {
    fail("{}: system goes with a chat that is a text; in a list it is the first message",
         line.name());
  }
}

// The fields that are not options.
struct OwnField {
  std::string_view name;
  void (*read)(Line line, Key key, RunOptions& request);  // REQUIRES: line.has(key)
};

constexpr OwnField kOwnFields[] = {{"id", read_id}, {"arrival", read_arrival}};

// Reads options from the fields of one line.
class OptionFields {
 public:
  OptionFields(Line line, RunOptions& options)
      : line_(line),
        options_(options),
        stage_(std::max(options.stage, kFirstBatchStage)),
        declared_(all_options(stage_, options)) {}

  // Throws Error if there is no such option, or if it belongs to the whole run.
  void read(Key key) {
    const auto option = std::ranges::find(declared_, key, &Option::field);
    if (option == declared_.end()) fail_unknown(key);
    const bool per_request = option->traits.per_request;
    const std::string why_not = why_no_option(*option, stage_, key);
    if (!per_request && !why_not.empty()) fail_unknown(key);
    if (!per_request) {
      fail("{}: {} belongs to the whole run, not to a request; give {} on the command line",
           line_.name(), key, option->name());
    }
    if (!why_not.empty()) fail("{}: {}", line_.name(), why_not);
    if (line_.has(key)) read_value(*option, key);
  }

 private:
  void read_value(const Option& option, Key key) {
    for (const std::string_view name : option.traits.needs) {
      const std::string needed = find_option(declared_, name)->field();
      if (!line_.has(needed)) fail("{}: {} goes with {}", line_.name(), key, needed);
    }
    if (key == "chat" && !line_.find(key)->is_string()) {
      read_chat_list(line_, key, options_);
    } else {
      read_option_field(option, stage_, line_);
    }
  }

  [[noreturn]] void fail_unknown(Key key) const {
    std::string names;
    for (const OwnField& field : kOwnFields) names += fmt::format(" {},", field.name);
    for (const Option& option : declared_) {
      const bool is_field = option.traits.per_request && option.traits.stages.has(stage_);
      if (is_field) names += fmt::format(" {},", option.field());
    }
    names.pop_back();
    fail("{}: there is no field {}; a request has{}", line_.name(), in_quotes(key), names);
  }

  Line line_;
  RunOptions& options_;
  int stage_;
  std::vector<Option> declared_;
};

void check_prompt(Line line) {
  std::vector<std::string> given;
  for (const char* field : {"prompt", "prompt_ids", "chat"}) {
    if (line.has(field)) given.emplace_back(field);
  }
  if (given.empty()) fail("{}: no prompt; give prompt, prompt_ids or chat", line.name());
  if (given.size() > 1) fail("{}: {} excludes {}", line.name(), given[0], given[1]);
}

// Throws Error, naming the line, for options that the command line would refuse as well.
void check_options(Line line, const RunOptions& options) {
  try {
    check_speculation_options(speculation_options(options));
    check_draft_length(options);
    if (!options.messages.empty()) check_chat(options.messages);
  } catch (const Error& error) {
    fail("{}: {}", line.name(), with_field_names(error.what()));
  }
}

RunOptions parse_request(std::string_view text, const std::string& where,
                         const RunOptions& defaults) {
  if (const auto offset = find_invalid_utf8(text)) fail("{}: not UTF-8 at byte {}", where, *offset);
  const Json object = parse_json_line(text, where);
  const JsonObject line(object, where);
  RunOptions request = defaults;
  request.where = where;
  OptionFields fields(line, request);
  for (const auto& [key, value] : object.items()) {
    const auto* own = std::ranges::find(kOwnFields, key, &OwnField::name);
    if (own == std::end(kOwnFields)) {
      fields.read(key);
    } else if (!value.is_null()) {
      own->read(line, key, request);
    }
  }
  check_prompt(line);
  check_options(line, request);
  return request;
}

}  // namespace

std::vector<RunOptions> parse_requests(std::string_view text, const std::string& name,
                                       const RunOptions& defaults) {
  check_speculation_options(speculation_options(defaults));  // errors here are not a line's fault
  std::vector<RunOptions> requests;
  std::unordered_map<std::string, int> line_of;  // by id
  int number = 0;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line = text.substr(start, end - start);
    start = end + 1;
    number++;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    RunOptions request = parse_request(line, fmt::format("{}:{}", name, number), defaults);
    if (request.id.empty()) request.id = std::to_string(requests.size());
    const auto [first, is_new] = line_of.emplace(request.id, number);
    if (!is_new) {
      fail("{}: the id {} is already used in line {}; every request needs its own", request.where,
           in_quotes(request.id), first->second);
    }
    requests.push_back(std::move(request));
    if (requests.size() > kMostRequests) {
      fail("{}: more than {} requests; give them in several runs", name, kMostRequests);
    }
  }
  if (requests.empty()) fail("{}: contains no request", name);
  return requests;
}

namespace {

[[noreturn]] void fail_too_large(const std::string& name) {
  fail("{}: more than {} of requests; give them in several runs", name, readable_bytes(kMostBytes));
}

// Reads a whole stream. Since it may never end, refuses NUL bytes and too much text at once.
std::string read_stream(std::istream& stream, const std::string& name) {
  std::string text;
  std::array<char, 1 << 16> block;
  do {
    stream.read(block.data(), block.size());
    const std::string_view part(block.data(), static_cast<std::size_t>(stream.gcount()));
    if (const std::size_t at = part.find('\0'); at != part.npos) {
      fail("{}: byte {} is NUL: this is no JSON", name, text.size() + at);
    }
    if (text.size() + part.size() > kMostBytes) fail_too_large(name);
    text += part;
  } while (stream);
  return text;
}

std::vector<RunOptions> read_any(const std::string& path, const RunOptions& defaults) {
  if (path == "-") return parse_requests(read_stream(std::cin, "stdin"), "stdin", defaults);
  std::error_code unknown;
  if (std::filesystem::is_fifo(path, unknown)) {  // such as the shell's <(command)
    std::ifstream pipe(path);
    return parse_requests(read_stream(pipe, path), path, defaults);
  }
  const MappedFile file(path);
  if (file.bytes().size() > kMostBytes) fail_too_large(path);
  const auto* text = reinterpret_cast<const char*>(file.bytes().data());
  return parse_requests({text, file.bytes().size()}, path, defaults);
}

}  // namespace

std::vector<RunOptions> read_requests(const std::string& path, const RunOptions& defaults) {
  try {
    return read_any(path, defaults);
  } catch (const std::bad_alloc& error) {
    fail("{}: {} for so many requests; give them in several runs", path == "-" ? "stdin" : path,
         memory_left(error));
  }
}

}  // namespace specdec
