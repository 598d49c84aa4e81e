#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/tokenizer/character_kinds.h"

namespace specdec {

// A split pattern as PCRE2 gets it: to be matched against kinds.of(text), one byte per character,
// with the options 0.
struct TranslatedRegex {
  CharacterKinds kinds;
  std::string pattern;
  // For each byte of `pattern`, and for its end, the byte of the split pattern that it comes from.
  std::vector<std::size_t> origin;
};

// Translates a split pattern of tokenizer.json, which is in Oniguruma's language.
//
// Which characters a class, a property or a letter under (?i: means is decided here, by one version
// of Unicode (unicode.h); PCRE2 sees bytes and knows no Unicode. The syntax around the classes is
// the same in both languages for most of what split patterns use, but not for all: {n,m}+ is
// possessive in one and repeated in the other, [ and && have a meaning inside Oniguruma's classes.
// So only what is known to be equal passes; all else is refused by name:
//   passes      literals, . | () (?:) (?i:) (?=) (?!) (?<=) (?<!) (?>), [] with ranges, ^ and
//               escapes, \s \S \d \xHH \x{H} \uHHHH, \p{} \P{} with general categories and scripts,
//               * + ? {n} {n,} {n,m} with a lazy ?, and * + ? with a possessive +
//   refused     anchors, \w, \D, \b, \h, back-references, named groups, POSIX classes, class
//               intersection, {,n}, {n}?, {n,m}+, options other than (?i:), and under (?i:) what is
//               not ASCII or could fold several characters into one
// Errors: what is refused, with its byte offset in the pattern; more characters and classes than
// CharacterKinds takes. REQUIRES: pattern is UTF-8.
TranslatedRegex translate_regex(std::string_view pattern);

// A pattern that matches exactly this text. Errors and REQUIRES: as above.
TranslatedRegex translate_literal(std::string_view literal);

}  // namespace specdec
