#include "common/base/utf8.h"

#include <cstdint>
#include <cstring>

#include "common/base/message.h"

namespace specdec {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// What a first byte tells: the length of its character, and the range of the second byte. This
// range excludes overlong forms, surrogates and values above U+10FFFF.
struct Lead {
  std::size_t length;  // 0: no character begins with this byte
  unsigned char second_low = 0x80;
  unsigned char second_high = 0xBF;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

// How many of the next eight bytes may be skipped because all eight are ASCII: 8 or 0.
std::size_t ascii_block(std::string_view text, std::size_t offset) {
  if (text.size() - offset < 8) return 0;
  std::uint64_t block;
  std::memcpy(&block, text.data() + offset, 8);
  return (block & 0x8080808080808080u) == 0 ? 8 : 0;
}

bool python_is_space(char32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

}  // namespace

Utf8Step next_utf8(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const Lead lead = lead_of(byte(0));
  if (lead.length == 0) return {Utf8Step::Kind::kInvalid, 1, 0};
  if (lead.length == 1) return {Utf8Step::Kind::kCharacter, 1, byte(0)};
  char32_t character = byte(0) & (0x7Fu >> lead.length);
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Utf8Step::Kind::kIncomplete, i, 0};
    const unsigned char low = i == 1 ? lead.second_low : 0x80;
    const unsigned char high = i == 1 ? lead.second_high : 0xBF;
    if (byte(i) < low || byte(i) > high) return {Utf8Step::Kind::kInvalid, i, 0};
    character = (character << 6) | (byte(i) & 0x3Fu);
  }
  return {Utf8Step::Kind::kCharacter, lead.length, character};
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  std::size_t offset = 0;
  while (offset < text.size()) {
    if (const std::size_t skipped = ascii_block(text, offset); skipped > 0) {
      offset += skipped;
      continue;
    }
    const Utf8Step step = next_utf8(text.substr(offset));
    if (step.kind != Utf8Step::Kind::kCharacter) return offset;
    offset += step.length;
  }
  return std::nullopt;
}

void append_utf8(std::string& out, char32_t character) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  const auto put_tail = [&](int shift) { put(0x80 | ((character >> shift) & 0x3F)); };
  if (character < 0x80) return put(character);
  if (character < 0x800) {
    put(0xC0 | (character >> 6));
  } else if (character < 0x10000) {
    put(0xE0 | (character >> 12));
    put_tail(6);
  } else {
    put(0xF0 | (character >> 18));
    put_tail(12);
    put_tail(6);
  }
  put_tail(0);
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x9 && c <= 0xD);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::string_view trim_like_python(std::string_view text) {
  // One pass finds both ends: the first and the last character that stay.
  std::size_t begin = text.size();
  std::size_t end = 0;
  for (std::size_t offset = 0; offset < text.size();) {
    const Utf8Step step = next_utf8(text.substr(offset));
    const bool space = step.kind == Utf8Step::Kind::kCharacter && python_is_space(step.character);
    if (!space && begin == text.size()) begin = offset;
    offset += step.length;
    if (!space) end = offset;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 59;
  return '"' + one_line(text, kLongest) + '"';
}

void LossyUtf8::push(std::string_view bytes, std::string& out) {
  std::string joined;  // used only if a character was waiting, which is rare
  if (!waiting_.empty()) {
    joined = waiting_ + std::string(bytes);
    bytes = joined;
    waiting_.clear();
  }
  while (!bytes.empty()) {
    const Utf8Step step = next_utf8(bytes);
    if (step.kind == Utf8Step::Kind::kIncomplete) {
      waiting_ = bytes;
      return;
    }
    out += step.kind == Utf8Step::Kind::kCharacter ? bytes.substr(0, step.length) : kReplacement;
    bytes.remove_prefix(step.length);
  }
}

void LossyUtf8::finish(std::string& out) {
  if (!waiting_.empty()) out += kReplacement;
  waiting_.clear();
}

}  // namespace specdec
