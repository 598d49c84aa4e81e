#include "common/tokenizer/code_point_set.h"

#include <algorithm>
#include <utility>

namespace specdec {

CodePointSet::CodePointSet(std::vector<CodePointRange> ranges) {
  // Most sets are made from ranges in order.
  if (!std::is_sorted(ranges.begin(), ranges.end())) std::sort(ranges.begin(), ranges.end());
  ranges_.reserve(ranges.size());
  for (const CodePointRange& range : ranges) {
    if (ranges_.empty() || range.first > ranges_.back().last + 1) {
      ranges_.push_back(range);
    } else {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    }
  }
}

bool CodePointSet::contains(char32_t character) const {
  const auto after =
      std::partition_point(ranges_.begin(), ranges_.end(),
                           [&](const CodePointRange& range) { return range.first <= character; });
  return after != ranges_.begin() && character <= std::prev(after)->last;
}

CodePointSet CodePointSet::complement() const {
  std::vector<CodePointRange> gaps;
  char32_t begin = 0;
  for (const CodePointRange& range : ranges_) {
    if (begin < range.first) gaps.push_back({begin, range.first - 1});
    begin = range.last + 1;
  }
  if (begin <= kLastCodePoint) gaps.push_back({begin, kLastCodePoint});
  return CodePointSet(std::move(gaps));
}

}  // namespace specdec
