#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/tokenizer/character_kinds.h"

namespace specdec {

// A split pattern for PCRE2. It is matched against kinds.of(text), one byte per character, with the
// options 0.
struct TranslatedRegex {
  CharacterKinds kinds;
  std::string pattern;
  // For each byte of `pattern`, and for its end, the byte of the split pattern that it comes from.
  std::vector<std::size_t> origin;
};

// Translates a split pattern of tokenizer.json, which is in Oniguruma's language.
//
// This function decides, by one version of Unicode (unicode.h), which characters a class, a
// property or a letter under (?i: matches. PCRE2 sees bytes and knows no Unicode. Most syntax of
// split patterns is the same in both languages, but not all: {n,m}+ is possessive in one and
// repeated in the other, and [ and && have a meaning inside Oniguruma's classes. So only syntax
// that is known to be equal passes; the rest is refused by name:
//   passes      literals, . | () (?:) (?i:) (?=) (?!) (?<=) (?<!) (?>), [] with ranges, ^ and
//               escapes, \s \S \d \xHH \x{H} \uHHHH, \p{} \P{} with general categories and scripts,
//               * + ? {n} {n,} {n,m} with a lazy ?, and * + ? with a possessive +
//   refused     anchors, \w, \D, \b, \h, back-references, named groups, POSIX classes, class
//               intersection, {,n}, {n}?, {n,m}+, options other than (?i:), and under (?i:) what is
//               not ASCII or could fold several characters into one
// Errors: refused syntax, with its byte offset in the pattern; more characters and classes than
// CharacterKinds takes. REQUIRES: pattern is UTF-8.
TranslatedRegex translate_regex(std::string_view pattern);

// A pattern that matches exactly this text. Errors and REQUIRES: as above.
TranslatedRegex translate_literal(std::string_view literal);

}  // namespace specdec
