#pragma once
#include <set>
#include <string_view>

#include "common/base/json_value.h"
#include "common/generation.h"
#include "stages/programs/run/options.h"
#include "stages/programs/run/request.h"
#include "stages/programs/show/report.h"

namespace specdec {

// Format 1 has chains. Format 2 has a "tree" in each round instead of "drafts", and the name of its
// shape.
inline constexpr std::string_view kChainTrace = "specdec-trace-1";
inline constexpr std::string_view kTreeTrace = "specdec-trace-2";

// A run as --trace writes it: its rounds, and what they need to be understood.
struct TraceFile {
  std::string_view format;
  const RunOptions& options;
  const Tokenizer* tokenizer;  // null: none
  const GenerationRequest& request;
  const Generation& generation;
  std::string_view rule;
  bool lossless = true;
  int page_size = 0, draft_page_size = 0;
  Json spec_length;
  Json stats;                     // as in the report
  std::set<TokenId> tokens = {};  // whose texts it needs, besides those of prompt and generation
  Json rounds = Json::array();
};

// Throws Error.
void write(const TraceFile& trace);

}  // namespace specdec
