#pragma once
#include <span>

#include "common/base/token_id.h"
#include "common/sampling/distribution.h"
#include "common/sampling/random_source.h"
#include "kernels/sampling.h"

namespace specdec {

// How a Sampler (kernels/sampling.h) samples a row whose token follows `history`.
RowSampling row_sampling(const SamplingOptions& options, std::span<const TokenId> history);

// The seed of draws that a device makes. REQUIRES: random.seed() has a value.
std::uint64_t device_seed(const RandomSource& random);

// Throws BadLogits, as probabilities() does, for a row in which a Sampler found no distribution.
[[noreturn]] void fail_without_distribution();

}  // namespace specdec
