#include "common/tokenizer/vocabulary.h"

#include <algorithm>
#include <string>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/utf8.h"
#include "common/tokenizer/byte_alphabet.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

// A file of a few bytes may name the id 2147483647. The table by id is as long as the largest id,
// so the number of unused ids is limited.
constexpr std::int64_t kMostUnusedIds = 1 << 20;

// FNV-1a, with a final mix because the low bits choose the slot and the high bits are the tag. For
// keys of a few bytes, a simple loop is fast enough.
std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed) {
  std::uint64_t hash = 0xCBF29CE484222325u ^ seed;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3u;
  }
  return hash ^ (hash >> 29);
}

std::uint32_t tag_of(std::uint64_t hash) { return hash >> 32; }

}  // namespace

void Vocabulary::add_model_token(std::string_view text, TokenId id) {
  add(text, id, Kind::kModelBytes, Kind::kModelRaw);
}

void Vocabulary::add_added_token(std::string_view text, TokenId id) {
  if (find_model_text(text)) fail("token {} appears twice", in_quotes(text));
  add(text, id, Kind::kAddedBytes, Kind::kAddedRaw);
}

void Vocabulary::add(std::string_view text, TokenId id, Kind bytes_kind, Kind raw_kind) {
  SPECDEC_CHECK(entry_of_id_.empty(), "no token to be added after finish()");
  if (id < 0) fail("token {} has the negative id {}", in_quotes(text), id);
  const std::optional<std::string> decoded = bytes_from_alphabet(text);
  const Kind kind = decoded ? bytes_kind : raw_kind;
  const std::string_view bytes = decoded ? std::string_view(*decoded) : text;
  if (2 * (ids_.size() + 1) > slots_.size()) grow();
  const std::uint64_t hash = hash_bytes(bytes, static_cast<std::uint64_t>(kind));
  Slot& slot = slots_[find_slot(kind, bytes, hash)];
  if (slot.entry >= 0) fail("token {} appears twice", in_quotes(text));
  slot = {tag_of(hash), int_size(ids_)};
  bytes_.add(bytes);
  kinds_.push_back(kind);
  ids_.push_back(id);
}

void Vocabulary::grow() {
  slots_.assign(std::max<std::size_t>(1024, 2 * slots_.size()), Slot());
  for (int entry = 0; entry < int_size(ids_); ++entry) {
    const Kind kind = kinds_[entry];
    const std::uint64_t hash = hash_bytes(bytes_[entry], static_cast<std::uint64_t>(kind));
    slots_[find_slot(kind, bytes_[entry], hash)] = {tag_of(hash), entry};
  }
}

std::size_t Vocabulary::find_slot(Kind kind, std::string_view bytes, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.entry < 0) return i;
    const bool same_tag = slot.tag == tag_of(hash) && kinds_[slot.entry] == kind;
    if (same_tag && bytes_[slot.entry] == bytes) return i;
  }
}

std::optional<TokenId> Vocabulary::find(Kind kind, std::string_view bytes) const {
  if (slots_.empty()) return std::nullopt;
  const std::uint64_t hash = hash_bytes(bytes, static_cast<std::uint64_t>(kind));
  const Slot& slot = slots_[find_slot(kind, bytes, hash)];
  if (slot.entry < 0) return std::nullopt;
  return ids_[slot.entry];
}

void Vocabulary::finish() {
  TokenId largest = -1;
  for (const TokenId id : ids_) largest = std::max(largest, id);
  if (largest >= std::ssize(ids_) + kMostUnusedIds) {
    fail("the ids reach {} with only {} tokens: no model has so many unused rows", largest,
         ids_.size());
  }
  entry_of_id_.assign(largest + 1, -1);
  for (std::size_t entry = 0; entry < ids_.size(); ++entry) {
    std::int32_t& place = entry_of_id_[ids_[entry]];
    if (place >= 0) {
      fail("tokens {} and {} have the same id {}", in_quotes(entry_text(place)),
           in_quotes(entry_text(entry)), ids_[entry]);
    }
    place = entry;
  }
}

bool Vocabulary::contains(TokenId id) const {
  return id >= 0 && id < size() && entry_of_id_[id] >= 0;
}

std::size_t Vocabulary::entry_of(TokenId id) const {
  SPECDEC_CHECK(contains(id), "an id of the vocabulary, not {}", id);
  return entry_of_id_[id];
}

std::string Vocabulary::entry_text(std::size_t entry) const {
  const bool raw = kinds_[entry] == Kind::kModelRaw || kinds_[entry] == Kind::kAddedRaw;
  return raw ? std::string(bytes_[entry]) : bytes_to_alphabet(bytes_[entry]);
}

std::string_view Vocabulary::bytes(TokenId id) const { return bytes_[entry_of(id)]; }

std::string Vocabulary::text(TokenId id) const { return entry_text(entry_of(id)); }

std::optional<TokenId> Vocabulary::find_model_bytes(std::string_view bytes) const {
  return find(Kind::kModelBytes, bytes);
}

std::optional<TokenId> Vocabulary::find_model_text(std::string_view text) const {
  const auto bytes = bytes_from_alphabet(text);
  return bytes ? find(Kind::kModelBytes, *bytes) : find(Kind::kModelRaw, text);
}

std::optional<TokenId> Vocabulary::find_text(std::string_view text) const {
  if (const auto id = find_model_text(text)) return id;
  const auto bytes = bytes_from_alphabet(text);
  return bytes ? find(Kind::kAddedBytes, *bytes) : find(Kind::kAddedRaw, text);
}

}  // namespace specdec
