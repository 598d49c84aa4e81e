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

// The tokens: which bytes an id stands for, and which id some bytes have.
//
// A token's text is what tokenizer.json spells. Where every character of it is in the byte-level
// alphabet (byte_alphabet.h), the token stands for those bytes; otherwise it is "raw" and stands
// for its own UTF-8. Only the former can come out of the BPE model, whose input is bytes.
//
// Immutable after finish(); const methods may run in several threads.
class Vocabulary {
 public:
  // Adds a token of the BPE model. Errors: the text or the id is there already; the id is negative.
  void add_model_token(std::string_view text, TokenId id);
  // Adds a token that only the search for added tokens finds, never the BPE model. Errors: as
  // above.
  void add_added_token(std::string_view text, TokenId id);

  // Call once after the last add. Errors: an id is used twice; ids leave so many holes that a model
  // cannot have a row for each.
  void finish();

  // One past the largest id: how many rows a model's embedding must have at least.
  TokenId size() const { return static_cast<TokenId>(entry_of_id_.size()); }
  // How many ids are in use.
  std::size_t entry_count() const { return ids_.size(); }
  bool contains(TokenId id) const;

  // REQUIRES: contains(id). The view lives as long as the vocabulary stays where it is.
  std::string_view bytes(TokenId id) const;
  // REQUIRES: contains(id). The text as the file spells it.
  std::string text(TokenId id) const;

  // The model's token that stands for exactly these bytes. Raw and added tokens are not found.
  std::optional<TokenId> find_model_bytes(std::string_view bytes) const;
  // The model's token with this text, raw ones included. REQUIRES: text is UTF-8.
  std::optional<TokenId> find_model_text(std::string_view text) const;
  // Any token with this text. REQUIRES: text is UTF-8.
  std::optional<TokenId> find_text(std::string_view text) const;

 private:
  // The kinds are name spaces: the same bytes may be a token of each kind.
  enum class Kind : std::uint8_t { kModelBytes, kModelRaw, kAddedBytes, kAddedRaw };
  struct Slot {
    std::uint32_t tag = 0;    // upper half of the hash: spares most visits to the text
    std::int32_t entry = -1;  // -1: free
  };

  void add(std::string_view text, TokenId id, Kind bytes_kind, Kind raw_kind);
  void grow();
  // The index of the slot that holds the entry, or of the free one where it belongs.
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
