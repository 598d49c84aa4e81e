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

// A line of greedy.jsonl: the target's tokens after a prompt, and the draft's choices after the
// same tokens.
struct GoldenText {
  std::string id;
  std::string prompt_text;            // special tokens included; empty: not recorded
  std::vector<TokenId> prompt;        // at least one
  std::vector<GreedyStep> steps;      // at least one
  std::vector<TokenId> draft_tokens;  // one for each step, or none

  std::vector<TokenId> tokens() const;  // of the steps
};

// The golden texts of a folder; none if it has no greedy.jsonl. Throws Error, naming file, line and
// field, for texts that the model cannot have written: ids outside its vocabulary, or more tokens
// than its context.
std::vector<GoldenText> golden_texts(const std::filesystem::path& goldens,
                                     const LlamaConfig& config, int at_most = kAllGoldens);

// The same for a text in memory; `name` is the file's name in messages.
std::vector<GoldenText> parse_golden_texts(std::string_view text, const std::string& name,
                                           const LlamaConfig& config, int at_most = kAllGoldens);

// Calls `read` with each line of JSON Lines, as an object whose name says which line it is. Throws
// Error if a line is not a JSON object.
void for_golden_lines(std::string_view text, const std::string& name, int at_most,
                      const std::function<void(const JsonObject& line)>& read);

// The file's text; "" if there is no such file.
std::string read_golden_lines(const std::filesystem::path& path);

// The field `id` as a text, such as "7" or "seven". Throws Error if it is missing, or neither a
// text nor an integer.
std::string golden_id(const JsonObject& line);

// Throws Error unless prompt and following tokens fit the model's context.
void check_golden_length(std::size_t prompt, std::size_t following, const LlamaConfig& config,
                         const std::string& name);

}  // namespace specdec
