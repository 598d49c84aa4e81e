#pragma once
#include <vector>

namespace specdec {

inline constexpr char32_t kLastCodePoint = 0x10FFFF;

// From `first` to `last`, both included.
struct CodePointRange {
  char32_t first;
  char32_t last;
  auto operator<=>(const CodePointRange&) const = default;
};

// A set of code points. Immutable. Equal sets have equal ranges: sorted, with gaps between them.
class CodePointSet {
 public:
  // The union of ranges in any order, which may overlap. REQUIRES: first <= last <= kLastCodePoint.
  explicit CodePointSet(std::vector<CodePointRange> ranges);

  const std::vector<CodePointRange>& ranges() const { return ranges_; }
  bool contains(char32_t character) const;
  // All other code points, surrogates among them.
  CodePointSet complement() const;
  auto operator<=>(const CodePointSet&) const = default;

 private:
  std::vector<CodePointRange> ranges_;
};

}  // namespace specdec
