#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/tokenizer/code_point_set.h"

namespace specdec {

// The kinds of characters that a pattern can tell apart. Two characters are of one kind if they are
// in the same sets of the pattern. A pattern has few kinds (Llama 3's has 15), so a byte numbers
// them, and the pattern is matched against kinds instead of characters.
class CharacterKinds {
 public:
  static constexpr std::size_t kMost = 255;     // sets, and kinds
  static constexpr std::uint8_t kNone = kMost;  // no character is of this kind
  // name: the pattern's name in messages. Errors: more than kMost sets or kinds.
  CharacterKinds(std::span<const CodePointSet> sets, std::string_view name);

  // The kinds of the set's characters, sorted. REQUIRES: the set is one of the constructor's.
  std::vector<std::uint8_t> kinds_in(const CodePointSet& set) const;

  // The kind of each character in turn, as a byte. REQUIRES: text is UTF-8.
  std::string of(std::string_view text) const;

 private:
  void fill_pages(std::span<const char32_t> begins, std::span<const std::size_t> kinds);

  // page_of_[code point / 256] is a page's index; page[code point % 256] is the kind. Many code
  // points share a page.
  std::array<std::uint16_t, (kLastCodePoint + 1) / 256> page_of_{};
  std::vector<std::array<std::uint8_t, 256>> pages_;
  std::vector<char32_t> examples_;  // by kind: one of its characters
};

}  // namespace specdec
