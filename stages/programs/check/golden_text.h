#pragma once
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "common/checkpoint/llama_config.h"
#include "stages/programs/comparator/greedy_steps.h"

namespace specdec {

constexpr int kAllGoldens = std::numeric_limits<int>::max();

// A line of greedy.jsonl: what the target says after a prompt, and what the draft would say after
// the same tokens.
struct GoldenText {
  std::string id;
  std::string prompt_text;            // special tokens included; empty: not recorded
  std::vector<TokenId> prompt;        // at least one
  std::vector<GreedyStep> steps;      // at least one
  std::vector<TokenId> draft_tokens;  // one for each step, or none

  std::vector<TokenId> tokens() const;  // of the steps
};

// Those of a folder; none where it has no greedy.jsonl. Throws Error, naming file, line and field,
// for what the model cannot have said: ids outside its vocabulary, more than its context.
std::vector<GoldenText> golden_texts(const std::filesystem::path& goldens,
                                     const LlamaConfig& config, int at_most = kAllGoldens);

// The same for a text in memory; `name` stands for the file in messages.
std::vector<GoldenText> parse_golden_texts(std::string_view text, const std::string& name,
                                           const LlamaConfig& config, int at_most = kAllGoldens);

// Calls `read` with each line of JSON Lines as an object that has a name for messages. Throws Error
// for what is no JSON, or no object.
void for_golden_lines(std::string_view text, const std::string& name, int at_most,
                      const std::function<void(const JsonObject& line)>& read);

// "" where there is no such file.
std::string read_golden_lines(const std::filesystem::path& path);

// "7" or "seven": the field `id`. Throws Error where it is missing or neither.
std::string golden_id(const JsonObject& line);

// Throws Error unless prompt and following tokens fit the model's context.
void check_golden_length(std::size_t prompt, std::size_t following, const LlamaConfig& config,
                         const std::string& name);

}  // namespace specdec
