#include "stages/02_contiguous_kv_cache/plain_contiguous_attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/cpu/exponential.h"

namespace specdec {
namespace {

// Every sum over a row has this order, which suits vector units: term i goes to partial sum i % 16,
// and the partial sums are added up as a tree.
template <typename AddTerm>
float sum_in_16_parts(int count, AddTerm add_term) {
  float parts[16] = {};
  for (int i = 0; i < count; ++i) parts[i % 16] = add_term(parts[i % 16], i);
  for (int half = 8; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) parts[l] += parts[l + half];
  }
  return parts[0];
}

// [snippet plain-attention]
// One query head over one head of the keys and values, whose row j begins at j * width.
void attend(const float* q, const float* keys, const float* values, int position, int width,
            int head_dim, float* out) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  float maximum = std::numeric_limits<float>::lowest();  // of the scores so far
  float weight_sum = 0.0f;                               // of exp(score - maximum)
  std::fill_n(out, head_dim, 0.0f);                      // of exp(score - maximum) * value

  // [task 2.4: one query over cached keys and values]
  for (int start = 0; start <= position; start += kAttentionChunk) {
    const int count = std::min(kAttentionChunk, position + 1 - start);
    float weights[kAttentionChunk];  // first the scores, then the weights
    float new_maximum = maximum;
    for (int j = 0; j < count; ++j) {
      const float* key = keys + std::ptrdiff_t{start + j} * width;
      weights[j] = scale * sum_in_16_parts(head_dim, [&](float part, int d) {
                     return std::fma(q[d], key[d], part);
                   });
      if (weights[j] > new_maximum) new_maximum = weights[j];
    }
    for (int j = 0; j < count; ++j) weights[j] = cpu::exponential(weights[j] - new_maximum);

    // The sums of earlier chunks are relative to their maximum.
    const float rescale = cpu::exponential(maximum - new_maximum);
    maximum = new_maximum;
    weight_sum =
        std::fma(weight_sum, rescale,
                 sum_in_16_parts(count, [&](float part, int j) { return part + weights[j]; }));
    for (int d = 0; d < head_dim; ++d) out[d] *= rescale;
    for (int j = 0; j < count; ++j) {
      const float* value = values + std::ptrdiff_t{start + j} * width;
      for (int d = 0; d < head_dim; ++d) out[d] = std::fma(weights[j], value[d], out[d]);
    }
  }
  for (int d = 0; d < head_dim; ++d) out[d] /= weight_sum;
  // [end task 2.4]
}
// [end snippet plain-attention]

}  // namespace

void plain_contiguous_attention(const float* q, const float* keys, const float* values,
                                int position, const HeadShape& heads, float* out) {
  const int width = heads.n_kv_heads * heads.head_dim;
  for (int h = 0; h < heads.n_heads; ++h) {
    const int kv_head = h / (heads.n_heads / heads.n_kv_heads);
    attend(q + h * heads.head_dim, keys + kv_head * heads.head_dim,
           values + kv_head * heads.head_dim, position, width, heads.head_dim,
           out + h * heads.head_dim);
  }
}

}  // namespace specdec
