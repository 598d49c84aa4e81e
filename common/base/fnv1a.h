#pragma once
#include <cstdint>
#include <string_view>

namespace specdec {

// FNV-1a (Fowler, Noll and Vo): the same hash on every machine. It tells texts apart, but is no
// defence against a text that was made to have a given hash.
constexpr std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

}  // namespace specdec
