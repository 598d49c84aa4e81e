#include "common/speculation/ngram_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/base/error.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

std::size_t at(TokenId token) { return static_cast<std::size_t>(token); }

// The logarithm of a probability: `count` of `total` tokens, plus mu tokens distributed as `prior`.
double log_smoothed(double count, double total, double prior) {
  constexpr double mu = NgramModel::kPriorTokens;
  return std::log((count + mu * prior) / (total + mu));
}

}  // namespace

NgramModel::NgramModel(Backend& backend, int vocab_size, int token_limit, int order,
                       std::span<const TokenId> text, int max_sequences)
    : UncachedModel(max_sequences), backend_(backend), order_(order), row_(vocab_size) {
  SPECDEC_CHECK(order == 1 || order == 2, "order 1 or 2, not {}", order);
  SPECDEC_CHECK(0 < token_limit && token_limit <= vocab_size,
                "{} tokens to be in a vocabulary of {}", token_limit, vocab_size);
  for (const TokenId id : text) {
    SPECDEC_CHECK(0 <= id && id < token_limit, "id {} of the text to be below {}", id, token_limit);
  }
  count_tokens(text, token_limit);
  if (order == 2) count_pairs(text);
}

void NgramModel::count_tokens(std::span<const TokenId> text, int token_limit) {
  std::vector<double> counts(row_.size());
  for (const TokenId id : text) counts[at(id)]++;
  log_unigram_.assign(row_.size(), -std::numeric_limits<double>::infinity());
  for (std::size_t x = 0; x < static_cast<std::size_t>(token_limit); x++) {
    log_unigram_[x] = log_smoothed(counts[x], static_cast<double>(text.size()), 1.0 / token_limit);
  }
}

void NgramModel::count_pairs(std::span<const TokenId> text) {
  std::vector<std::pair<TokenId, TokenId>> pairs;
  pairs.reserve(text.size());
  for (std::size_t i = 1; i < text.size(); i++) pairs.emplace_back(text[i - 1], text[i]);
  std::ranges::sort(pairs);  // equal pairs side by side, and the successors of a token together

  auto pair = pairs.begin();
  for (TokenId h = 0; h < vocab_size(); h++) {
    first_successor_.push_back(successors_.size());
    const auto end = std::find_if(pair, pairs.end(), [h](const auto& p) { return p.first != h; });
    const auto total = static_cast<double>(end - pair);
    log_rest_.push_back(log_smoothed(0, total, 1));
    while (pair != end) {
      const TokenId x = pair->second;
      const auto next = std::find_if(pair, end, [x](const auto& p) { return p.second != x; });
      const double prior = std::exp(log_unigram_[at(x)]);
      const double log_prob = log_smoothed(static_cast<double>(next - pair), total, prior);
      successors_.push_back({x, static_cast<float>(log_prob)});
      pair = next;
    }
  }
  first_successor_.push_back(successors_.size());
}

void NgramModel::forward(std::span<const Segment> batch, const Outputs& out) {
  extend(batch, out);
  int row = 0;
  for (const Segment& segment : batch) {
    for (const TokenId token : segment.tokens.last(segment.logits_rows)) {
      const std::span<const float> values = row_after(token);
      backend_.upload(values.data(), out.logits.row(row), values.size_bytes());
      row++;
    }
  }
}

// Log-probabilities of the token that follows `token`, [V]; valid until the next call.
std::span<const float> NgramModel::row_after(TokenId token) {
  const double rest = order_ == 2 ? log_rest_[at(token)] : 0;
  for (std::size_t x = 0; x < row_.size(); x++) {
    row_[x] = static_cast<float>(log_unigram_[x] + rest);
  }
  if (order_ == 2) {
    const std::size_t first = first_successor_[at(token)], end = first_successor_[at(token + 1)];
    for (std::size_t i = first; i < end; i++)
      row_[at(successors_[i].token)] = successors_[i].log_prob;
  }
  return row_;
}

}  // namespace specdec
