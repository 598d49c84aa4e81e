#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/token_id.h"
#include "common/tokenizer/string_list.h"

namespace specdec {

// The tokens: from an id to its bytes, and from bytes to an id.
//
// A token's text is its spelling in tokenizer.json. If all its characters are in the byte-level
// alphabet (byte_alphabet.h), the token means the bytes that they spell. Otherwise it is "raw", and
// means its text in UTF-8. The BPE model yields no raw tokens, because its input is bytes.
//
// Immutable after finish(); const methods may run in several threads.
class Vocabulary {
 public:
  // Adds a token of the BPE model. Errors: the text is there already; the id is negative.
  void add_model_token(std::string_view text, TokenId id);
  // Adds a token that only the search for added tokens finds, not the BPE model. Errors: as above.
  void add_added_token(std::string_view text, TokenId id);

  // Call this once, after the last add. Errors: an id is used twice; more ids are unused than any
  // model has rows.
  void finish();

  // One past the largest id: the least number of rows of a model's embedding.
  TokenId size() const { return static_cast<TokenId>(entry_of_id_.size()); }
  // How many ids are in use.
  std::size_t entry_count() const { return ids_.size(); }
  bool contains(TokenId id) const;

  // REQUIRES: contains(id). The view is valid until the vocabulary is moved or destroyed.
  std::string_view bytes(TokenId id) const;
  // REQUIRES: contains(id). The text as the file spells it.
  std::string text(TokenId id) const;

  // The model's token with exactly these bytes. Raw and added tokens are not found.
  std::optional<TokenId> find_model_bytes(std::string_view bytes) const;
  // The model's token with this text, including raw tokens. REQUIRES: text is UTF-8.
  std::optional<TokenId> find_model_text(std::string_view text) const;
  // Any token with this text. REQUIRES: text is UTF-8.
  std::optional<TokenId> find_text(std::string_view text) const;

 private:
  // The kinds are name spaces: the same bytes may be a token of each kind.
  enum class Kind : std::uint8_t { kModelBytes, kModelRaw, kAddedBytes, kAddedRaw };
  struct Slot {
    std::uint32_t tag = 0;    // upper half of the hash; if it differs, the text need not be read
    std::int32_t entry = -1;  // -1: free
  };

  void add(std::string_view text, TokenId id, Kind bytes_kind, Kind raw_kind);
  void grow();
  // The index of the slot with the entry, or of the free slot where it belongs.
  std::size_t find_slot(Kind kind, std::string_view bytes, std::uint64_t hash) const;
  std::optional<TokenId> find(Kind kind, std::string_view bytes) const;
  std::string entry_text(std::size_t entry) const;
  std::size_t entry_of(TokenId id) const;

  StringList bytes_;                       // by entry
  std::vector<Kind> kinds_;                // by entry
  std::vector<TokenId> ids_;               // by entry
  std::vector<Slot> slots_;                // open addressing, a power of two, at most half full
  std::vector<std::int32_t> entry_of_id_;  // -1: the id is not in use
};

}  // namespace specdec
