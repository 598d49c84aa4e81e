#pragma once
#include <cfloat>
#include <string>
#include <string_view>

namespace specdec {

// A range of allowed numbers, from `lowest` to `highest`. NaN and infinity are never allowed.
struct NumberRange {
  double lowest = -DBL_MAX;
  double highest = DBL_MAX;
  bool above_lowest = false;     // `lowest` itself is not allowed
  bool below_highest = false;    // `highest` itself is not allowed
  std::string_view remark = "";  // on one of the numbers: "0: always the likeliest token"

  bool has(double number) const;
  std::string words() const;  // "a number above 0 and at most 1 (1: no limit)"
};

// Throws Error if the number is out of range; `name` is its name in the message.
void check_range(const NumberRange& range, double number, std::string_view name);

}  // namespace specdec
