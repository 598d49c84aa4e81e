#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/tokenizer/added_tokens.h"
#include "common/tokenizer/vocabulary.h"

namespace specdec {

// What the other files of a checkpoint's folder say about its added tokens, read as transformers 5
// reads them: added_tokens_decoder, the special tokens by name (bos_token, pad_token, ...), and
// extra_special_tokens or additional_special_tokens of tokenizer_config.json. If this file has no
// added_tokens_decoder, special_tokens_map.json is read, too, and its members replace the others.
// If we missed a token that only these files name, its text would become ordinary tokens.
struct FurtherTokens {
  // added_tokens_decoder, by id; nothing: there is none.
  std::optional<std::vector<AddedToken>> listed = {};
  // New tokens unless other tokens have their contents: first those with transformers' own names,
  // then the extra ones. They have no ids yet (-1).
  std::vector<AddedToken> special = {};
  // The contents of all named tokens: these tokens are special.
  std::set<std::string> named = {};
  std::map<std::string, std::string> own = {};  // contents by names that are the model's own
  std::map<std::string, TokenId> old = {};  // ids by contents, of added_tokens.json if it counts
};

// Errors: a file is not JSON; a member has a form that transformers does not read;
// split_special_tokens is true.
FurtherTokens read_further_tokens(const std::filesystem::path& directory);

// Adds the tokens to those of tokenizer.json, or changes these. A token of the model keeps its id,
// and a new one gets the next. `model_tokens`: model.vocab alone.
// Errors: added_tokens_decoder states another id for a new token, or contradicts tokenizer.json
// about `normalized`; `special` describes a new token in several ways; a token of `own` or `old` is
// unknown.
void add_further_tokens(const FurtherTokens& further, const Vocabulary& model_tokens,
                        std::vector<AddedToken>& added);

}  // namespace specdec
