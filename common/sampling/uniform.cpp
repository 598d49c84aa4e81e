#include "common/sampling/uniform.h"

#include <Random123/philox.h>

#include "common/base/check.h"

namespace specdec {

namespace {

r123::Philox4x32::ctr_type words(std::uint64_t seed, int position, Purpose purpose, TokenId index) {
  SPECDEC_CHECK(position >= 0 && index >= 0, "position {} and index {} of a draw to be at least 0",
                position, index);
  const r123::Philox4x32::key_type key = {
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  const r123::Philox4x32::ctr_type counter = {{static_cast<std::uint32_t>(position),
                                               static_cast<std::uint32_t>(purpose),
                                               static_cast<std::uint32_t>(index), 0}};
  return r123::Philox4x32()(counter, key);
}

}  // namespace

double uniform(std::uint64_t seed, int position, Purpose purpose, TokenId index) {
  return (words(seed, position, purpose, index)[0] >> 8) * 0x1p-24;
}

double fine_uniform(std::uint64_t seed, int position, Purpose purpose, TokenId index) {
  const auto drawn = words(seed, position, purpose, index);
  return (drawn[0] >> 5) * 0x1p-27 + (drawn[1] >> 6) * 0x1p-53;
}

}  // namespace specdec
