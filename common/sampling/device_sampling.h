#pragma once
#include <span>

#include "common/base/token_id.h"
#include "common/sampling/distribution.h"
#include "common/sampling/random_source.h"
#include "kernels/sampling.h"

namespace specdec {

// What a Sampler (kernels/sampling.h) is told of a row whose token follows `history`.
RowSampling row_sampling(const SamplingOptions& options, std::span<const TokenId> history);

// The seed of draws that a device makes. REQUIRES: random throws a seed's dice.
std::uint64_t device_seed(const RandomSource& random);

// Throws the BadLogits of probabilities() for a row that a Sampler found no distribution in.
[[noreturn]] void fail_without_distribution();

}  // namespace specdec
