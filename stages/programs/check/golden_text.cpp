#include "stages/programs/check/golden_text.h"

#include <algorithm>
#include <utility>

#include "common/base/error.h"
#include "common/base/json_value.h"
#include "common/base/mapped_file.h"
#include "stages/programs/comparator/number_lists.h"

namespace specdec {
namespace {

GoldenText read_text(const JsonObject& line, const LlamaConfig& config) {
  GoldenText text{.id = golden_id(line),
                  .prompt_text = line.string("prompt").value_or(""),
                  .prompt = read_tokens(line, "prompt_ids", config.vocab_size),
                  .steps = read_greedy_steps(line, config.vocab_size),
                  .draft_tokens = {}};
  check_golden_length(text.prompt.size(), text.steps.size(), config, line.name());
  if (line.has("draft_tokens")) {
    text.draft_tokens = read_tokens(line, "draft_tokens", config.vocab_size);
    if (text.draft_tokens.size() != text.steps.size()) {
      fail("{}: {} tokens and {} draft_tokens; there must be one of each per step", line.name(),
           text.steps.size(), text.draft_tokens.size());
    }
  }
  return text;
}

}  // namespace

std::vector<TokenId> GoldenText::tokens() const {
  std::vector<TokenId> tokens;
  for (const GreedyStep& step : steps) tokens.push_back(step.token);
  return tokens;
}

std::vector<GoldenText> golden_texts(const std::filesystem::path& goldens,
                                     const LlamaConfig& config, int at_most) {
  const auto path = goldens / "greedy.jsonl";
  return parse_golden_texts(read_golden_lines(path), path.string(), config, at_most);
}

std::vector<GoldenText> parse_golden_texts(std::string_view text, const std::string& name,
                                           const LlamaConfig& config, int at_most) {
  std::vector<GoldenText> texts;
  for_golden_lines(text, name, at_most,
                   [&](const JsonObject& line) { texts.push_back(read_text(line, config)); });
  return texts;
}

std::string read_golden_lines(const std::filesystem::path& path) {
  return std::filesystem::exists(path) ? read_text_file(path) : "";
}

void for_golden_lines(std::string_view text, const std::string& name, int at_most,
                      const std::function<void(const JsonObject& line)>& read) {
  int number = 0;
  for (std::size_t start = 0; start < text.size() && number < at_most;) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string where = fmt::format("{}:{}", name, ++number);
    const Json json = parse_json_line(text.substr(start, end - start), where);
    read(JsonObject(json, where));
    start = end + 1;
  }
}

std::string golden_id(const JsonObject& line) {
  const Json* id = line.find("id");
  if (id == nullptr) line.fail_missing("id");
  if (!id->is_string() && !id->is_number_integer()) line.fail_type("id", "a text or an integer");
  return id->is_string() ? id->get<std::string>() : id->dump();
}

void check_golden_length(std::size_t prompt, std::size_t following, const LlamaConfig& config,
                         const std::string& name) {
  if (std::cmp_greater(prompt + following, config.max_seq_len)) {
    fail("{}: {} and {} tokens; the model has {} positions", name, prompt, following,
         config.max_seq_len);
  }
}

}  // namespace specdec
