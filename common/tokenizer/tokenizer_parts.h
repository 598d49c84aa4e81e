#pragma once
#include <vector>

#include "common/base/json.h"
#include "common/base/json_value.h"
#include "common/base/token_id.h"
#include "common/tokenizer/added_tokens.h"
#include "common/tokenizer/bpe.h"
#include "common/tokenizer/pre_tokenizer.h"
#include "common/tokenizer/vocabulary.h"

namespace specdec {

// The parts of a tokenizer.json besides the vocabulary and the merges. Each function takes the
// whole file's object and reads its part. If something that is not implemented would make ids or
// text differ from Hugging Face's, it is refused by name. All may throw Error.

// version: 1.0. normalizer: none.
void check_version_and_normalizer(const Json& file);

// decoder: ByteLevel; its flags do not matter.
void check_decoder(const Json& file);

// model, without vocab and merges: byte-level BPE. Options that would change its merging are
// refused.
BpeOptions read_bpe_options(const Json& file);

// added_tokens, in the file's order. Their contents are all different and not empty.
std::vector<AddedToken> read_added_tokens(const Json& file);

// An added token's content and flags, without its id. The content is not empty.
AddedToken read_token_flags(const JsonObject& object);

// pre_tokenizer: a ByteLevel, and before it any of Split and Digits.
PreTokenizer read_pre_tokenizer(const Json& file);

// post_processor: the tokens around every text.
struct TextTemplate {
  std::vector<TokenId> before;
  std::vector<TokenId> after;
};
TextTemplate read_post_processor(const Json& file, const Vocabulary& vocabulary);

}  // namespace specdec
