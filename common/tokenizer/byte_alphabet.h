#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace specdec {

// The alphabet in which byte-level tokenizers write their vocabulary (Radford et al. 2019, GPT-2).
// Every byte has a printable character, so that a JSON file can contain any bytes as text. The
// bytes 0x21-0x7E, 0xA1-0xAC and 0xAE-0xFF are the characters of these numbers; the other 68, in
// ascending order, are U+0100, U+0101, ... A space is therefore U+0120 and a line feed U+010A.

// The byte's character in UTF-8.
std::string_view alphabet_character(unsigned char byte);

// The bytes that a text in the alphabet means; nothing if one of its characters is not in the
// alphabet (a space, for instance, or a Chinese character). REQUIRES: text is UTF-8.
std::optional<std::string> bytes_from_alphabet(std::string_view text);

// The inverse: any bytes, written in the alphabet.
std::string bytes_to_alphabet(std::string_view bytes);

}  // namespace specdec
