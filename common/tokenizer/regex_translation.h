#pragma once
#include <string>
#include <string_view>

namespace specdec {

// Rewrites a split pattern of tokenizer.json, which is in Oniguruma's language, as a pattern that
// PCRE2 (options UTF and UCP, newline LF) matches alike.
//
// The two agree on most of what split patterns use, but not on all: PCRE2's \s has U+180E besides,
// \h and \v mean other things, {n,m}+ is possessive in one and repeated in the other, [ and && have
// a meaning inside Oniguruma's classes. So only what is known to be equal, or can be spelled so
// that it is, passes; all else is refused by name:
//   passes      literals, . | () (?:) (?i:) (?=) (?!) (?<=) (?<!) (?>), [] with ranges, ^ and
//               escapes, * + ? {n} {n,} {n,m} with a lazy ?, and * + ? with a possessive +
//   rewritten   \s \S \uHHHH \v, \d, scripts, which mean Script_Extensions to PCRE2, and \p{L},
//               \p{M}, \p{N}, \p{Nd} with what Unicode 16 added (unicode_16.h)
//   refused     anchors, \w, \D, \b, \h, back-references, named groups, POSIX classes, class
//               intersection, {,n}, {n}?, {n,m}+, options other than (?i:), and under (?i:) what
//               could fold several characters into one
// Errors: what is refused, with its byte offset in the pattern. REQUIRES: pattern is UTF-8.
std::string translate_regex(std::string_view pattern);

}  // namespace specdec
