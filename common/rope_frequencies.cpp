#include "common/rope_frequencies.h"

#include <cmath>
#include <numbers>

namespace specdec {
namespace {

// Short wavelengths are kept, wavelengths beyond the original context are stretched by the factor,
// and those in between are blended. PyTorch divides a number by a tensor as number x (1 / tensor),
// hence the reciprocals.
float scaled(float frequency, const RopeScaling& scaling) {
  const float factor = scaling.factor;
  const float low = scaling.low_freq_factor;
  const float high = scaling.high_freq_factor;
  const float original = scaling.original_max_seq_len;
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
    const float exponent = static_cast<float>(i) / head_dim;
    const float power = std::pow(theta, exponent);
    const float frequency = 1.0f / power;
    frequencies.push_back(scaling ? scaled(frequency, *scaling) : frequency);
  }
  return frequencies;
}

}  // namespace specdec
