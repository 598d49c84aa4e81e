#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace specdec {

// CRC-32 as in zlib (and ISO 3309), in eight hexadecimal digits.
class Crc32 {
 public:
  void add_byte(std::uint8_t byte) { crc_ = table()[(crc_ ^ byte) & 0xFF] ^ (crc_ >> 8); }
  void add(std::uint32_t number) {
    for (int shift = 0; shift < 32; shift += 8)
      add_byte(static_cast<std::uint8_t>(number >> shift));
  }
  void add(std::string_view text) {
    for (const char byte : text) add_byte(static_cast<std::uint8_t>(byte));
  }
  std::string hex() const { return fmt::format("{:08x}", ~crc_); }

 private:
  static const std::array<std::uint32_t, 256>& table() {
    static const auto made = [] {
      std::array<std::uint32_t, 256> remainders{};
      for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t r = i;
        for (int bit = 0; bit < 8; ++bit) r = (r >> 1) ^ ((r & 1) != 0 ? 0xEDB88320u : 0u);
        remainders[i] = r;
      }
      return remainders;
    }();
    return made;
  }
  std::uint32_t crc_ = 0xFFFFFFFF;
};

}  // namespace specdec
