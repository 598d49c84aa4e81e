#pragma once
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/base/token_id.h"
#include "kernels/int_size.h"

namespace specdec {

// The target's k likeliest tokens at each position of the text that it generated, the likeliest
// first. They depend on the text alone. Used from stage 7 on.
class LikelyTokens {
 public:
  // first: the position of the first generated token. REQUIRES: k >= 1, first >= 0.
  LikelyTokens(int k, int first) : k_(k), first_(first) {
    SPECDEC_CHECK(k >= 1 && first >= 0, "at least one token, not {}, from {} on", k, first);
  }

  int k() const { return k_; }
  int end() const { return first_ + int_size(tokens_) / k_; }  // one past the last position

  // Adds the likeliest tokens at position end(). REQUIRES: k tokens.
  void add(std::span<const TokenId> tokens) {
    SPECDEC_CHECK(std::ssize(tokens) == k_, "{} tokens, not {}", k_, tokens.size());
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }

  // The likeliest tokens at this position of the text. Empty if unknown, as in the prompt.
  std::span<const TokenId> at(int position) const {
    if (position < first_ || position >= end()) return {};
    const auto k = static_cast<std::size_t>(k_);
    return std::span(tokens_).subspan(static_cast<std::size_t>(position - first_) * k, k);
  }

 private:
  int k_, first_;
  std::vector<TokenId> tokens_;  // [positions, k]
};

}  // namespace specdec
