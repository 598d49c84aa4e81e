#include "common/tokenizer/byte_alphabet.h"

#include <array>

#include "common/base/utf8.h"

namespace specdec {
namespace {

constexpr int kFirstSubstitute = 0x100;
constexpr int kSubstitutes = 68;

struct Alphabet {
  std::array<std::string, 256> characters;  // by byte
  // By codepoint: the byte, or -1. The last character is the last substitute, U+0143.
  std::array<int, kFirstSubstitute + kSubstitutes> bytes;
};

bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.bytes.fill(-1);
  int next_substitute = kFirstSubstitute;
  for (int byte = 0; byte < 256; ++byte) {
    const int character = stands_for_itself(byte) ? byte : next_substitute++;
    append_utf8(alphabet.characters[byte], static_cast<char32_t>(character));
    alphabet.bytes[character] = byte;
  }
  return alphabet;
}

const Alphabet& alphabet() {
  static const Alphabet instance = make_alphabet();
  return instance;
}

}  // namespace

std::string_view alphabet_character(unsigned char byte) { return alphabet().characters[byte]; }

std::optional<std::string> bytes_from_alphabet(std::string_view text) {
  const Alphabet& table = alphabet();
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    if (step.character >= table.bytes.size()) return std::nullopt;
    const int byte = table.bytes[step.character];
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    text.remove_prefix(step.length);
  }
  return bytes;
}

std::string bytes_to_alphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += alphabet_character(static_cast<unsigned char>(byte));
  return text;
}

}  // namespace specdec
