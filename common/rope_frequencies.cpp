#include "common/rope_frequencies.h"

#include <cmath>
#include <numbers>

namespace specdec {
namespace {

// Short wavelengths are kept, those beyond the original context are stretched by the factor, and
// those between are blended. PyTorch divides a number by a tensor as number x (1 / tensor), hence
// the reciprocals.
float scaled(float frequency, const RopeScaling& scaling) {
  const auto factor = static_cast<float>(scaling.factor);
  const auto low = static_cast<float>(scaling.low_freq_factor);
  const auto high = static_cast<float>(scaling.high_freq_factor);
  const auto original = static_cast<float>(scaling.original_max_seq_len);
  const float wavelength = 1.0f / frequency * (2.0f * std::numbers::pi_v<float>);
  if (wavelength > original / low) return frequency / factor;
  if (wavelength < original / high) return frequency;
  const float kept = (1.0f / wavelength * original - low) / (high - low);
  return (1.0f - kept) * frequency / factor + kept * frequency;
}

}  // namespace

std::vector<float> rope_frequencies(int head_dim, double theta,
                                    const std::optional<RopeScaling>& scaling) {
  std::vector<float> frequencies;
  for (int i = 0; i < head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(head_dim);
    const float frequency = 1.0f / static_cast<float>(std::pow(theta, exponent));
    frequencies.push_back(scaling ? scaled(frequency, *scaling) : frequency);
  }
  return frequencies;
}

}  // namespace specdec
