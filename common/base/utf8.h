#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace specdec {

// UTF-8 as table 3-7 of the Unicode Standard defines it: no overlong forms, no surrogates, nothing
// above U+10FFFF.

// What some bytes begin with.
struct Utf8Step {
  enum class Kind {
    kCharacter,   // `length` bytes spell `character`
    kInvalid,     // `length` bytes begin no character, whatever follows them
    kIncomplete,  // all the bytes begin a character, and the end cuts it off
  };
  Kind kind;
  std::size_t length;
  char32_t character;
};

// REQUIRES: bytes is not empty. For kInvalid, `length` is that of the "maximal subpart": the
// longest prefix that could have begun a character, at least 1. U+FFFD replaces each of them.
Utf8Step next_utf8(std::string_view bytes);

// The offset of the first byte that belongs to no character, or nothing if the text is valid.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

// REQUIRES: character is at most U+10FFFF and not a surrogate.
void append_utf8(std::string& out, char32_t character);

// Unicode's White_Space property. PCRE2's \s also matches U+180E, and Python's str.isspace also
// accepts the separators U+001C to U+001F.
bool is_white_space(char32_t character);

// Python's str.strip(). REQUIRES: text is UTF-8.
std::string_view trim_like_python(std::string_view text);

// The text in double quotes for a message of one line: control characters escaped, bytes that are
// not UTF-8 replaced, long text cut.
std::string in_quotes(std::string_view text);

// [snippet lossy-utf8]
// Turns bytes that arrive in pieces into text. A character that is not complete yet waits for its
// remaining bytes. Bytes that cannot become a character turn into U+FFFD, one for each maximal
// subpart, as in Rust's String::from_utf8_lossy.
class LossyUtf8 {
 public:
  void push(std::string_view bytes, std::string& out);
  // Ends the text: a character that is still waiting becomes U+FFFD.
  void finish(std::string& out);

 private:
  std::string waiting_;  // 0 to 3 bytes: the beginning of a character
};
// [end snippet lossy-utf8]

}  // namespace specdec
