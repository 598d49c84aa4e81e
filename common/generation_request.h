#pragma once
#include <string>
#include <vector>

#include "common/base/token_id.h"

namespace specdec {

// What to generate, and when to stop.
struct GenerationRequest {
  std::vector<TokenId> prompt = {};  // at least one id
  int max_new_tokens = 0;
  int max_context = 0;                 // positions that prompt and new tokens may take
  std::vector<TokenId> eos_ids = {};   // empty with --ignore-eos
  std::vector<std::string> stop = {};  // texts to stop before
};

}  // namespace specdec
