#include "common/tokenizer/character_kinds.h"

#include <algorithm>
#include <map>

#include "common/base/error.h"

namespace specdec {
namespace {

constexpr std::size_t kUnset = ~std::size_t{0};

// Stretches of code points, within which no set begins or ends.
struct Stretches {
  std::vector<char32_t> begins;    // the first is 0; each ends where the next begins
  std::vector<std::size_t> kinds;  // of each stretch
  std::size_t count = 1;           // of kinds
};

// Splits every kind of which only a part is in the set.
void refine(Stretches& stretches, const CodePointSet& set) {
  std::vector<std::size_t> part(stretches.count,
                                kUnset);  // by kind: the new number of its part in the set
  std::size_t i = 0;
  for (const CodePointRange& range : set.ranges()) {
    while (stretches.begins[i] < range.first) ++i;
    for (; i < stretches.begins.size() && stretches.begins[i] <= range.last; ++i) {
      std::size_t& kind = stretches.kinds[i];
      if (part[kind] == kUnset) part[kind] = stretches.count++;
      kind = part[kind];
    }
  }
}

// Renumbers the kinds that are in use, from 0.
void renumber(Stretches& stretches) {
  std::vector<std::size_t> number(stretches.count, kUnset);
  stretches.count = 0;
  for (std::size_t& kind : stretches.kinds) {
    if (number[kind] == kUnset) number[kind] = stretches.count++;
    kind = number[kind];
  }
}

Stretches find_stretches(std::span<const CodePointSet> sets) {
  Stretches stretches;
  stretches.begins.push_back(0);
  for (const CodePointSet& set : sets) {
    for (const CodePointRange& range : set.ranges()) {
      stretches.begins.push_back(range.first);
      if (range.last < kLastCodePoint) stretches.begins.push_back(range.last + 1);
    }
  }
  std::sort(stretches.begins.begin(), stretches.begins.end());
  stretches.begins.erase(std::unique(stretches.begins.begin(), stretches.begins.end()),
                         stretches.begins.end());
  stretches.kinds.assign(stretches.begins.size(), 0);
  for (const CodePointSet& set : sets) refine(stretches, set);
  renumber(stretches);
  return stretches;
}

// The character that `bytes` points to; moves the pointer past it. REQUIRES: UTF-8.
char32_t take_character(const unsigned char*& bytes) {
  const char32_t lead = *bytes++;
  if (lead < 0x80) return lead;
  const int more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  char32_t character = lead & (0x3Fu >> more);
  for (int i = 0; i < more; ++i) character = character << 6 | (*bytes++ & 0x3Fu);
  return character;
}

}  // namespace

CharacterKinds::CharacterKinds(std::span<const CodePointSet> sets, std::string_view name) {
  if (sets.size() > kMost) {
    fail("the split pattern {} has more than {} different characters and classes", name, kMost);
  }
  const Stretches stretches = find_stretches(sets);
  if (stretches.count > kMost) {
    fail("the split pattern {} tells more than {} kinds of character apart", name, kMost);
  }
  examples_.resize(stretches.count);
  for (std::size_t i = 0; i < stretches.begins.size(); ++i) {
    examples_[stretches.kinds[i]] = stretches.begins[i];
  }
  fill_pages(stretches.begins, stretches.kinds);
}

void CharacterKinds::fill_pages(std::span<const char32_t> begins,
                                std::span<const std::size_t> kinds) {
  std::map<std::size_t, std::uint16_t>
      uniform;  // by kind: the page whose characters are all of this kind
  const auto next_begin = [&](std::size_t stretch) {
    return stretch + 1 < begins.size() ? begins[stretch + 1] : kLastCodePoint + 1;
  };
  std::size_t stretch = 0;
  for (char32_t page = 0; page < page_of_.size(); ++page) {
    const char32_t first = page * 256;
    if (next_begin(stretch) == first) ++stretch;
    page_of_[page] = pages_.size();
    if (next_begin(stretch) >= first + 256) {
      const auto [known, is_new] = uniform.emplace(kinds[stretch], page_of_[page]);
      page_of_[page] = known->second;
      if (!is_new) continue;
    }
    pages_.emplace_back();
    for (char32_t c = 0; c < 256;) {
      const char32_t end = std::min<char32_t>(256, next_begin(stretch) - first);
      std::fill(&pages_.back()[c], pages_.back().data() + end,
                static_cast<std::uint8_t>(kinds[stretch]));
      if (end < 256) ++stretch;
      c = end;
    }
  }
}

std::vector<std::uint8_t> CharacterKinds::kinds_in(const CodePointSet& set) const {
  std::vector<std::uint8_t> kinds;
  for (std::size_t kind = 0; kind < examples_.size(); ++kind) {
    if (set.contains(examples_[kind])) kinds.push_back(kind);
  }
  return kinds;
}

std::string CharacterKinds::of(std::string_view text) const {
  std::string kinds(text.size(), '\0');
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = at + text.size();
  std::size_t count = 0;
  while (at < end) {
    const char32_t character = take_character(at);
    kinds[count++] = static_cast<char>(pages_[page_of_[character / 256]][character % 256]);
  }
  kinds.resize(count);
  return kinds;
}

}  // namespace specdec
