#pragma once
#include <array>
#include <random>
#include <string>

#include "common/base/utf8.h"

namespace specdec {

// Texts that are hard for a tokenizer, because characters that patterns, flags and UTF-8 treat
// differently are close together. Uses the raw generator, whose numbers are the same everywhere.
class RandomText {
 public:
  explicit RandomText(unsigned seed) : generator_(seed) {}

  unsigned below(unsigned bound) { return static_cast<unsigned>(generator_() % bound); }

  char32_t character() {
    static constexpr std::array<char32_t, 44> kNasty = {
        ' ',   ' ',  ' ',    '\n',   '\r',   '\t',    '\'',    's',    'S',    'T',    'd',
        'l',   'v',  'e',    'r',    'm',    0x17F,   '1',     '2',    0x660,  0xB2,   0x2160,
        '!',   '.',  '<',    '|',    0xA0,   0x85,    0x180E,  0x2003, 0x3000, 0x200B, 0x200D,
        0x301, 0xE9, 0x4E2D, 0xAC00, 0x1F99, 0x1F600, 0x1F1E6, 0xFEFF, 0x1C,   0x0,    0x10FFFF};
    if (below(4) > 0) return kNasty[below(kNasty.size())];
    const char32_t c = below(3) == 0 ? below(0x110000) : below(0x3000);
    return c >= 0xD800 && c < 0xE000 ? U'a' : c;
  }

  std::string text(unsigned longest) {
    std::string text;
    for (unsigned n = below(longest + 1); n > 0; --n) append_utf8(text, character());
    return text;
  }

  std::string bytes(unsigned longest) {
    std::string text;
    for (unsigned n = below(longest + 1); n > 0; --n) {
      text.push_back(static_cast<char>(below(256)));
    }
    return text;
  }

 private:
  std::mt19937 generator_;
};

}  // namespace specdec
