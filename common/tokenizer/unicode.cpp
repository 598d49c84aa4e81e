#include "common/tokenizer/unicode.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace specdec {
namespace {

#include "common/tokenizer/unicode_data.inc"

// The code points of all runs whose name is accepted.
template <typename Accepts>
std::optional<CodePointSet> select(std::span<const std::string_view> names,
                                   std::span<const std::uint32_t> runs, Accepts accepts) {
  std::vector<bool> accepted;
  for (const std::string_view name : names) accepted.push_back(accepts(name));
  if (std::find(accepted.begin(), accepted.end(), true) == accepted.end()) return std::nullopt;
  std::vector<CodePointRange> ranges;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!accepted[runs[i] % 256]) continue;
    const char32_t last = i + 1 < runs.size() ? (runs[i + 1] >> 8) - 1 : kLastCodePoint;
    ranges.push_back({runs[i] >> 8, last});
  }
  return CodePointSet(std::move(ranges));
}

}  // namespace

std::optional<CodePointSet> unicode_property(std::string_view name) {
  if (name.empty() || name == "Unknown") return std::nullopt;
  const auto in_category = [&](std::string_view category) {
    if (name == "LC") return category == "Lu" || category == "Ll" || category == "Lt";
    return name == category || (name.size() == 1 && name[0] == category[0]);
  };
  if (const auto found = select(kCategoryNames, kCategoryRuns, in_category)) return found;
  return select(kScriptNames, kScriptRuns, [&](std::string_view script) { return name == script; });
}

CodePointSet unicode_white_space() {
  return CodePointSet({{0x09, 0x0D},
                       {0x20, 0x20},
                       {0x85, 0x85},
                       {0xA0, 0xA0},
                       {0x1680, 0x1680},
                       {0x2000, 0x200A},
                       {0x2028, 0x2029},
                       {0x202F, 0x202F},
                       {0x205F, 0x205F},
                       {0x3000, 0x3000}});
}

}  // namespace specdec
