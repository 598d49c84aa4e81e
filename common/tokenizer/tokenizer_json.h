#pragma once
#include <string_view>
#include <vector>

#include "common/base/json_value.h"
#include "common/base/token_id.h"
#include "common/tokenizer/string_list.h"

namespace specdec {

// The contents of a tokenizer.json. The vocabulary and the merges, nearly all of the file, are kept
// apart: as JSON values they would take ten times the file's size.
struct TokenizerJson {
  Json rest;  // the file without model.vocab and model.merges
  bool has_vocab = false;
  bool has_merges = false;
  StringList vocab_texts;          // model.vocab in the file's order ...
  std::vector<TokenId> vocab_ids;  // ... and the ids
  StringList merge_parts;          // left and right of model.merges[0], of model.merges[1], ...
};

// Errors: not JSON (with line and column), not UTF-8, not an object, nested too deeply, a key that
// occurs twice in an object; an id that is not an integer from 0 to 2^31 - 1; a merge that does not
// have two parts.
TokenizerJson read_tokenizer_json(std::string_view text);

}  // namespace specdec
