#include "common/sampling/uniform.h"

#include <Random123/philox.h>

#include "common/base/check.h"

namespace specdec {

double uniform(std::uint64_t seed, int position, Purpose purpose, TokenId index) {
  SPECDEC_CHECK(position >= 0 && index >= 0, "position {} and index {} of a draw to be at least 0",
                position, index);
  const r123::Philox4x32::key_type key = {
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  const r123::Philox4x32::ctr_type counter = {{static_cast<std::uint32_t>(position),
                                               static_cast<std::uint32_t>(purpose),
                                               static_cast<std::uint32_t>(index), 0}};
  const auto drawn = r123::Philox4x32()(counter, key);
  return (drawn[0] >> 5) * 0x1p-27 + (drawn[1] >> 6) * 0x1p-53;
}

}  // namespace specdec
