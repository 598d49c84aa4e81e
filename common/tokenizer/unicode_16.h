#pragma once
#include <string_view>

namespace specdec {

// The letters (L), marks (M), numbers (N) or decimal digits (Nd) that Unicode 15, 15.1 and 16
// added, as members of a character class; nothing for other properties.
//
// `tokenizers` 0.23 has Unicode 16, PCRE2 has 14 before release 10.43 and 15 before 10.45. With
// these, both agree on what nearly all patterns are made of. Other properties are those of PCRE2's
// version. Source: UnicodeData.txt of the four versions.
std::string_view characters_new_in_unicode_16(std::string_view property);

}  // namespace specdec
