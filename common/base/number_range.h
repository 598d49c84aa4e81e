#pragma once
#include <cfloat>
#include <string>
#include <string_view>

namespace specdec {

// The numbers that something may be: those from `lowest` to `highest`. NaN and infinity are never
// among them.
struct NumberRange {
  double lowest = -DBL_MAX;
  double highest = DBL_MAX;
  bool above_lowest = false;     // `lowest` itself is not among them,
  bool below_highest = false;    // nor is `highest`
  std::string_view remark = "";  // what one of them means: "0: always the likeliest token"

  bool has(double number) const;
  std::string words() const;  // "a number above 0 and at most 1 (1: no limit)"
};

// Throws Error where the range does not have the number; `name` is what the message calls it.
void check_range(const NumberRange& range, double number, std::string_view name);

}  // namespace specdec
