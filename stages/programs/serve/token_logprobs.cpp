#include "stages/programs/serve/token_logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels/int_size.h"

namespace specdec {
namespace {

struct Scored {
  TokenId token = 0;
  double logprob = 0;
};

// The logarithms of the softmax.
class Row {
 public:
  Row(std::span<const float> logits, int token_limit) : logits_(logits.first(token_limit)) {
    const double largest = *std::ranges::max_element(logits_);
    double sum = 0;
    for (const float logit : logits_) sum += std::exp(logit - largest);
    log_sum_ = largest + std::log(sum);
  }

  Scored of(TokenId token) const { return {token, logits_[token] - log_sum_}; }

  std::vector<Scored> likeliest(int n) const {
    std::vector<TokenId> ids(logits_.size());
    std::iota(ids.begin(), ids.end(), 0);
    n = std::min(n, int_size(ids));
    std::ranges::partial_sort(ids, ids.begin() + n, [&](TokenId a, TokenId b) {
      return logits_[a] != logits_[b] ? logits_[a] > logits_[b] : a < b;
    });
    std::vector<Scored> scored;
    for (int i = 0; i < n; i++) scored.push_back(of(ids[i]));
    return scored;
  }

 private:
  std::span<const float> logits_;
  double log_sum_ = 0;
};

std::string_view text_of(TokenId token, const Tokenizer& tokenizer) {
  return tokenizer.decoded_bytes(token, false);
}

Json entry(const Scored& scored, const Tokenizer& tokenizer) {
  const std::string_view text = text_of(scored.token, tokenizer);
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<int>(static_cast<unsigned char>(c)));
  return {{"token", text}, {"logprob", scored.logprob}, {"bytes", std::move(bytes)}};
}

}  // namespace

Json token_logprobs(std::span<const TokenId> tokens, std::span<const float> logits, int token_limit,
                    int top, bool is_chat, const Tokenizer& tokenizer) {
  const std::size_t V = tokens.empty() ? 0 : logits.size() / tokens.size();
  Json content = Json::array(), texts = Json::array(), values = Json::array();
  Json tops = Json::array();
  for (std::size_t i = 0; i < tokens.size(); i++) {
    const Row row(logits.subspan(i * V, V), token_limit);
    const Scored chosen = row.of(tokens[i]);
    Json of_token = entry(chosen, tokenizer), list = Json::array(), by_text = Json::object();
    for (const Scored& other : row.likeliest(top)) {
      list.push_back(entry(other, tokenizer));
      by_text[text_of(other.token, tokenizer)] = other.logprob;
    }
    of_token["top_logprobs"] = std::move(list);
    content.push_back(std::move(of_token));
    texts.push_back(text_of(tokens[i], tokenizer));
    values.push_back(chosen.logprob);
    tops.push_back(std::move(by_text));
  }
  if (is_chat) return {{"content", std::move(content)}, {"refusal", Json::array()}};
  return {{"tokens", std::move(texts)},
          {"token_logprobs", std::move(values)},
          {"top_logprobs", std::move(tops)}};
}

}  // namespace specdec
