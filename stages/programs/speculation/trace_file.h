#pragma once
#include <set>
#include <string_view>

#include "common/base/json_value.h"
#include "common/generation.h"
#include "stages/programs/run/options.h"
#include "stages/programs/run/request.h"
#include "stages/programs/show/report.h"

namespace specdec {

// In format 1, drafts are chains. In format 2, each round has "tree" instead of "drafts", and the
// file has the name of the trees' shape. In format 3, rounds are those of a beam search.
inline constexpr std::string_view kChainTrace = "specdec-trace-1";
inline constexpr std::string_view kTreeTrace = "specdec-trace-2";
inline constexpr std::string_view kBeamTrace = "specdec-trace-3";

// The content of a --trace file: the rounds of a run, and the data needed to interpret them.
struct TraceFile {
  std::string_view format;
  const RunOptions& options;
  const Tokenizer* tokenizer;  // null: no texts
  const GenerationRequest& request;
  const Generation& generation;
  std::string_view rule;
  bool lossless = true;
  int page_size = 0, draft_page_size = 0;
  Json spec_length;
  Json stats;                     // as in the report
  std::set<TokenId> tokens = {};  // tokens that the rounds mention
  Json rounds = Json::array();
  Json more = Json::object();  // fields of its format
};

// Writes the file that --trace names. Throws Error.
void write(const TraceFile& trace);

}  // namespace specdec
