#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/token_id.h"
#include "common/base/utf8.h"
#include "common/tokenizer/added_tokens.h"
#include "common/tokenizer/bpe.h"
#include "common/tokenizer/pre_tokenizer.h"
#include "common/tokenizer/tokenizer_parts.h"
#include "common/tokenizer/vocabulary.h"

namespace specdec {

struct FurtherTokens;

// Turns text into token ids and back, by a Hugging Face tokenizer.json with byte-level BPE (Llama
// 3, GPT-2, SmolLM2, ...), with the same ids as the Python package `tokenizers`. Bytes for which
// the vocabulary has no token are left out, or become its unk_token.
//
// Encoding: the added tokens are cut out of the text (added_tokens.h), the stretches between them
// are cut into words (pre_tokenizer.h), the bytes of each word are merged (bpe.h), and the
// post-processor's tokens, such as Llama's <|begin_of_text|>, are put around the whole.
//
// Not applied: `truncation` and `padding` of the file (transformers does not apply them either),
// and the clean_up_tokenization_spaces of tokenizer_config.json, which deletes spaces before
// punctuation.
//
// Immutable: const methods may run in several threads.
class Tokenizer {
 public:
  // With the special tokens that other files of its folder add (further_tokens.h).
  // Errors: a file cannot be read, is not a tokenizer.json, contradicts itself, or needs something
  // that is not implemented. The message names the file and the part that is wrong.
  static Tokenizer load(const std::filesystem::path& tokenizer_json);
  // A tokenizer.json in memory, without other files; `name` is its name in messages.
  static Tokenizer parse(std::string_view json, std::string_view name);

  // Text that contains an added token's content, "<|eot_id|>" for instance, gives that token; with
  // SpecialText::kOrdinary, special ones are split and merged like other text.
  // Errors: the text is not UTF-8 (with the byte's offset), or is longer than 2^31 - 2 bytes.
  std::vector<TokenId> encode(std::string_view text, bool add_special_tokens = true,
                              SpecialText special_text = SpecialText::kToken) const;

  // Ids that are not in the vocabulary are skipped. Bytes that form no character become U+FFFD. So
  // decode(encode(text)) is text if all of its bytes have tokens, but the decoded text of arbitrary
  // ids need not encode to the same ids.
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens = true) const;

  // The bytes that one id adds to decode's output; empty where decode leaves it out.
  std::string_view decoded_bytes(TokenId id, bool skip_special_tokens = true) const;

  // One past the largest id: the rows a model needs at least. It may have more (padding).
  TokenId vocab_size() const { return vocabulary_.size(); }
  // How many ids have a token. Smaller than vocab_size() if there are holes.
  std::size_t token_count() const { return vocabulary_.entry_count(); }
  bool contains(TokenId id) const { return vocabulary_.contains(id); }
  // Whether decode leaves the token out by default.
  bool is_special(TokenId id) const;
  // The token as tokenizer.json spells it, and its bytes. REQUIRES: contains(id).
  std::string token_text(TokenId id) const { return vocabulary_.text(id); }
  std::string_view token_bytes(TokenId id) const { return vocabulary_.bytes(id); }
  // The id of the token that has this spelling in tokenizer.json. REQUIRES: text is UTF-8.
  std::optional<TokenId> find_token(std::string_view text) const;

  // encode() calls `observer` with the number of bytes that have no token, unless it is 0.
  using OnUnknownBytes = std::function<void(std::size_t bytes)>;
  void on_unknown_bytes(OnUnknownBytes observer) { on_unknown_bytes_ = std::move(observer); }
  // The token that such bytes become; nothing: they are left out.
  std::optional<TokenId> unknown_token() const { return model_.unknown_token(); }

  // In the order of the file.
  std::span<const AddedToken> added_tokens() const { return added_tokens_.all(); }
  // What encode puts before and after the text (Llama 3: <|begin_of_text|>, nothing).
  std::span<const TokenId> tokens_before_text() const { return template_.before; }
  std::span<const TokenId> tokens_after_text() const { return template_.after; }

 private:
  Tokenizer(Vocabulary vocabulary, BpeModel model, PreTokenizer pre_tokenizer,
            AddedTokens added_tokens, TextTemplate text_template);
  static Tokenizer build(std::string_view json, std::string_view name,
                         const FurtherTokens& further);

  Vocabulary vocabulary_;
  BpeModel model_;
  PreTokenizer pre_tokenizer_;
  AddedTokens added_tokens_;
  TextTemplate template_;
  std::vector<bool> special_;  // by id
  OnUnknownBytes on_unknown_bytes_;
};

// Ids pass from the draft model to the target, so both tokenizers must give every id the same
// meaning. Returns the first difference ("token 17 is ..."), or nothing if there is none. Splitting
// and merging are not compared, because only the target's tokenizer encodes.
std::optional<std::string> first_difference(const Tokenizer& target, const Tokenizer& draft);

// Decodes ids as they arrive. The texts that push() and finish() return, joined, are decode() of
// all the ids. Each text is valid UTF-8, because a character waits until its last byte has arrived.
class StreamDecoder {
 public:
  // REQUIRES: the tokenizer outlives the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens = true)
      : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens) {}

  std::string push(TokenId id);
  // The rest of the text: U+FFFD if a character is not complete. Afterwards the decoder can be used
  // again.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  LossyUtf8 characters_;
};

}  // namespace specdec
