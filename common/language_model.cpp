#include "common/language_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/argmax.h"
#include "common/base/check.h"
#include "common/sampling/bad_logits.h"

namespace specdec {

void LanguageModel::forward_chosen(std::span<const SequenceId>, const std::int32_t*, DeviceRows) {
  SPECDEC_CHECK(feeds_from_device(), "a model that can be fed from its device");
}

void check_parents(const Segment& segment, int length) {
  const std::span<const int> parents = segment.parents;
  if (parents.empty()) return;
  const std::size_t cached = parents.size() - segment.tokens.size();
  SPECDEC_CHECK(segment.tokens.size() <= parents.size() && std::cmp_less_equal(cached, length),
                "{} nodes for {} tokens, the others among {} cached ones", parents.size(),
                segment.tokens.size(), length);
  for (int node = 0; node < std::ssize(parents); ++node) {
    const int parent = parents[node];
    SPECDEC_CHECK(-1 <= parent && parent < node, "node {} to follow an earlier one, not {}", node,
                  parent);
  }
}

void fail_not_numbers() {
  throw BadLogits("logits are not numbers (NaN); its weights may be damaged");
}

TokenId argmax(Backend& backend, ConstDeviceRows logits) {
  SPECDEC_CHECK(logits.rows == 1, "one row, not {}", logits.rows);
  TokenId id = -1;
  backend.argmax(logits, std::span(&id, 1));
  if (id < 0) fail_not_numbers();
  return id;
}

TokenId argmax(std::span<const float> logits) {
  if (std::ranges::any_of(logits, [](float x) { return std::isnan(x); })) fail_not_numbers();
  return std::ranges::max_element(logits) - logits.begin();
}

TokenId argmax(std::span<const double> probs) {
  return std::ranges::max_element(probs) - probs.begin();
}

std::vector<float> to_host(Backend& backend, ConstDeviceRows rows) {
  const std::size_t width = rows.width;
  std::vector<float> values(rows.rows * width);
  for (int r = 0; r < rows.rows; ++r) {
    backend.download(rows.row(r), values.data() + r * width, width * sizeof(float));
  }
  return values;
}

bool same_bits(Backend& backend, ConstDeviceRows a, ConstDeviceRows b) {
  if (a.rows != b.rows || a.width != b.width) return false;
  const std::vector<float> left = to_host(backend, a), right = to_host(backend, b);
  return left.empty() || std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
}

}  // namespace specdec
