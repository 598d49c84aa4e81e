#pragma once
#include <iterator>

namespace specdec {

// The size of a container or span as an int, the type of our counts and indices.
//
// Other conversions need no cast: an int indexes a container directly and converts to a size_t
// parameter. A product that may exceed an int starts wide: std::ptrdiff_t{row} * width.
template <typename Range>
constexpr int int_size(const Range& range) {
  return static_cast<int>(std::size(range));
}

}  // namespace specdec
