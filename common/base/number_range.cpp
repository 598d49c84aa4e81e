#include "common/base/number_range.h"

#include <fmt/format.h>

#include "common/base/error.h"

namespace specdec {

bool NumberRange::has(double number) const {
  const bool high_enough = above_lowest ? number > lowest : number >= lowest;
  const bool low_enough = below_highest ? number < highest : number <= highest;
  return high_enough && low_enough && number <= DBL_MAX && number >= -DBL_MAX;
}

std::string NumberRange::words() const {
  std::string text = "a number";
  if (lowest > -DBL_MAX) {
    text += fmt::format(" {} {}", above_lowest ? "above" : "of at least", lowest);
  }
  if (highest < DBL_MAX) {
    text += fmt::format("{} {} {}", lowest > -DBL_MAX ? " and" : "",
                        below_highest       ? "below"
                        : lowest > -DBL_MAX ? "at most"
                                            : "of at most",
                        highest);
  }
  return remark.empty() ? text : fmt::format("{} ({})", text, remark);
}

void check_range(const NumberRange& range, double number, std::string_view name) {
  if (!range.has(number)) fail("{} is {}; it takes {}", name, number, range.words());
}

}  // namespace specdec
