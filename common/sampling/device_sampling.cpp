#include "common/sampling/device_sampling.h"

#include "common/base/check.h"
#include "common/sampling/bad_logits.h"

namespace specdec {

RowSampling row_sampling(const SamplingOptions& options, std::span<const TokenId> history) {
  return {.temperature = options.temperature,
          .top_k = options.top_k,
          .top_p = options.top_p,
          .repetition_penalty = options.repetition_penalty,
          .history = history};
}

std::uint64_t device_seed(const RandomSource& random) {
  SPECDEC_CHECK(random.seed().has_value(), "draws that come from a seed");
  return *random.seed();
}

void fail_without_distribution() {
  throw BadLogits(
      "logits are not numbers, or all of them are minus infinity, so there is nothing to sample "
      "from; its weights may be damaged");
}

}  // namespace specdec
