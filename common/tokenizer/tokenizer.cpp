#include "common/tokenizer/tokenizer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/error.h"
#include "common/base/mapped_file.h"
#include "common/base/utf8.h"
#include "common/tokenizer/further_tokens.h"
#include "common/tokenizer/tokenizer_json.h"

namespace specdec {
namespace {

Vocabulary model_tokens(const TokenizerJson& file) {
  Vocabulary vocabulary;
  for (std::size_t i = 0; i < file.vocab_ids.size(); ++i) {
    vocabulary.add_model_token(file.vocab_texts[i], file.vocab_ids[i]);
  }
  return vocabulary;
}

void complete(Vocabulary& vocabulary, const std::vector<AddedToken>& added) {
  for (const AddedToken& token : added) {
    // A token that is also in model.vocab is the same token, with the same id.
    const auto known = vocabulary.find_model_text(token.content);
    if (!known) {
      vocabulary.add_added_token(token.content, token.id);
    } else if (*known != token.id) {
      fail("token {} has the id {} in model.vocab and {} in added_tokens", in_quotes(token.content),
           *known, token.id);
    }
  }
  vocabulary.finish();
}

}  // namespace

Tokenizer Tokenizer::load(const std::filesystem::path& tokenizer_json) {
  const MappedFile file(tokenizer_json);
  const std::span<const std::byte> bytes = file.bytes();
  return build({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, tokenizer_json.string(),
               read_further_tokens(tokenizer_json.parent_path()));
}

Tokenizer Tokenizer::parse(std::string_view json, std::string_view name) {
  return build(json, name, FurtherTokens{.listed = std::vector<AddedToken>()});
}

Tokenizer Tokenizer::build(std::string_view json, std::string_view name,
                           const FurtherTokens& further) try {
  const TokenizerJson file = read_tokenizer_json(json);
  const BpeOptions bpe_options = read_bpe_options(file.rest);
  check_version_and_normalizer(file.rest);
  check_decoder(file.rest);
  PreTokenizer pre_tokenizer = read_pre_tokenizer(file.rest);
  if (!file.has_vocab) fail("model has no \"vocab\" object");
  if (!file.has_merges) fail("model has no \"merges\" array");
  std::vector<AddedToken> added = read_added_tokens(file.rest);
  Vocabulary vocabulary = model_tokens(file);
  add_further_tokens(further, vocabulary, added);
  complete(vocabulary, added);
  BpeModel model(vocabulary, file.merge_parts, bpe_options);
  TextTemplate text_template = read_post_processor(file.rest, vocabulary);
  return Tokenizer(std::move(vocabulary), std::move(model), std::move(pre_tokenizer),
                   AddedTokens(std::move(added)), std::move(text_template));
} catch (const Error& e) {
  fail("{}: {}", name, e.what());
}

Tokenizer::Tokenizer(Vocabulary vocabulary, BpeModel model, PreTokenizer pre_tokenizer,
                     AddedTokens added_tokens, TextTemplate text_template)
    : vocabulary_(std::move(vocabulary)),
      model_(std::move(model)),
      pre_tokenizer_(std::move(pre_tokenizer)),
      added_tokens_(std::move(added_tokens)),
      template_(std::move(text_template)),
      special_(vocabulary_.size(), false) {
  for (const AddedToken& token : added_tokens_.all()) {
    if (token.special) special_[token.id] = true;
  }
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool add_special_tokens,
                                       SpecialText special_text) const {
  // Positions within a word are 32-bit numbers.
  if (text.size() >= std::numeric_limits<std::int32_t>::max()) {
    fail("the text has {} bytes; split it, the most is 2147483646", text.size());
  }
  if (const auto offset = find_invalid_utf8(text)) {
    fail("the text is not UTF-8: byte 0x{:02X} at offset {}",
         static_cast<unsigned char>(text[*offset]), *offset);
  }
  std::vector<TokenId> ids;
  if (add_special_tokens) ids = template_.before;
  BpeModel::Workspace work;
  const auto on_word = [&](std::string_view word) { model_.encode(word, vocabulary_, work, ids); };
  added_tokens_.split(
      text, special_text, [&](std::string_view stretch) { pre_tokenizer_.split(stretch, on_word); },
      [&](TokenId id) { ids.push_back(id); });
  if (work.unknown_bytes() > 0 && on_unknown_bytes_) on_unknown_bytes_(work.unknown_bytes());
  if (add_special_tokens) {
    ids.insert(ids.end(), template_.after.begin(), template_.after.end());
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  std::string text;
  LossyUtf8 characters;
  for (const TokenId id : ids) characters.push(decoded_bytes(id, skip_special_tokens), text);
  characters.finish(text);
  return text;
}

std::string_view Tokenizer::decoded_bytes(TokenId id, bool skip_special_tokens) const {
  if (!contains(id) || (skip_special_tokens && is_special(id))) return {};
  return token_bytes(id);
}

bool Tokenizer::is_special(TokenId id) const { return contains(id) && special_[id]; }

std::optional<TokenId> Tokenizer::find_token(std::string_view text) const {
  return vocabulary_.find_text(text);
}

std::optional<std::string> first_difference(const Tokenizer& target, const Tokenizer& draft) {
  const auto describe = [](const Tokenizer& tokenizer, TokenId id) {
    if (!tokenizer.contains(id)) return std::string("not in use");
    return in_quotes(tokenizer.token_text(id)) + (tokenizer.is_special(id) ? " (special)" : "");
  };
  const TokenId end = std::max(target.vocab_size(), draft.vocab_size());
  for (TokenId id = 0; id < end; ++id) {
    const bool same = target.contains(id) == draft.contains(id) &&
                      target.is_special(id) == draft.is_special(id) &&
                      (!target.contains(id) || target.token_bytes(id) == draft.token_bytes(id));
    if (!same) {
      return fmt::format("token {} is {} in the target's tokenizer and {} in the draft's", id,
                         describe(target, id), describe(draft, id));
    }
  }
  return std::nullopt;
}

std::string StreamDecoder::push(TokenId id) {
  std::string text;
  characters_.push(tokenizer_.decoded_bytes(id, skip_special_tokens_), text);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  characters_.finish(text);
  return text;
}

}  // namespace specdec
