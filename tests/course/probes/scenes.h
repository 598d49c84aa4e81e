#pragma once
#include <algorithm>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "common/forwarding_model.h"
#include "common/sampling/uniform.h"
#include "tests/table_model.h"

// Models for the probes of stages 4 to 8: small, made of a seed, and the same on every machine.
namespace specdec::course {

using Tokens = std::vector<TokenId>;

// A number that belongs to a seed and a prefix: any other token, however far back, makes another.
inline std::uint64_t prefix_number(std::uint64_t seed, std::span<const TokenId> prefix) {
  std::uint64_t number = seed + 0x9e3779b97f4a7c15;
  for (const TokenId token : prefix) {
    number = (number ^ (static_cast<std::uint64_t>(token) + 1)) * 0xbf58476d1ce4e5b9;
    number ^= number >> 29;
  }
  return number;
}

// `count` tokens of a vocabulary.
inline Tokens tokens_of(std::uint64_t seed, int count, int vocab_size) {
  Tokens tokens;
  for (int i = 0; i < count; i++) {
    tokens.push_back(static_cast<TokenId>(uniform(seed, i, Purpose::kTarget) * vocab_size));
  }
  return tokens;
}

inline Tokens joined(Tokens text, std::span<const TokenId> more) {
  text.insert(text.end(), more.begin(), more.end());
  return text;
}

inline Tokens to_tokens(std::span<const TokenId> tokens) { return {tokens.begin(), tokens.end()}; }

// Rows of logits: those that a prefix chooses are random numbers from 0 to 4, but the token that
// `choice` names gets 5. agreement: how much of the row belongs to the first seed, which two models
// may share; the rest belongs to the second.
class Rows {
 public:
  using Choice = std::function<TokenId(std::span<const TokenId> prefix)>;

  Rows(int vocab_size, Choice choice) : choice_(std::move(choice)), row_(std::size_t(vocab_size)) {}
  Rows(int vocab_size, std::uint64_t seed, std::uint64_t other_seed, double agreement)
      : row_(std::size_t(vocab_size)), seeds_{seed, other_seed}, agreement_(agreement) {}
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  std::span<const float> operator()(std::span<const TokenId> prefix) {
    if (choice_) {
      std::ranges::fill(row_, 0.f);
      row_[static_cast<std::size_t>(choice_(prefix))] = 5;
      return row_;
    }
    const std::uint64_t one = prefix_number(seeds_.first, prefix);
    const std::uint64_t other = prefix_number(seeds_.second, prefix);
    for (std::size_t i = 0; i < row_.size(); i++) {
      const auto token = static_cast<TokenId>(i);
      row_[i] =
          static_cast<float>(4 * (agreement_ * uniform(one, 0, Purpose::kRace, token) +
                                  (1 - agreement_) * uniform(other, 0, Purpose::kRace, token)));
    }
    return row_;
  }
  // REQUIRES: this outlives the function.
  TableModel::RowOf row_of() {
    return [this](std::span<const TokenId> prefix) { return (*this)(prefix); };
  }

 private:
  Choice choice_;
  std::vector<float> row_;  // [V]
  std::pair<std::uint64_t, std::uint64_t> seeds_ = {0, 0};
  double agreement_ = 1;
};

// Passes everything on to a model, and remembers what it was fed.
class WatchedModel final : public ForwardingModel {
 public:
  struct Fed {
    SequenceId sequence = 0;
    Tokens tokens;
    int logits_rows = 0;
  };

  using ForwardingModel::ForwardingModel;

  using LanguageModel::forward;
  void forward(std::span<const Segment> batch, const Outputs& out) override {
    passes.emplace_back();
    for (const Segment& segment : batch) {
      passes.back().push_back({segment.sequence, to_tokens(segment.tokens), segment.logits_rows});
    }
    ForwardingModel::forward(batch, out);
  }
  // The tokens of each pass, all sequences together.
  std::vector<int> rows() const {
    std::vector<int> result;
    for (const auto& pass : passes) {
      int rows = 0;
      for (const Fed& fed : pass) rows += static_cast<int>(fed.tokens.size());
      result.push_back(rows);
    }
    return result;
  }
  // The sequences of each pass.
  std::vector<int> sequences() const {
    std::vector<int> result;
    for (const auto& pass : passes) result.push_back(static_cast<int>(pass.size()));
    return result;
  }

  std::vector<std::vector<Fed>> passes;
};

}  // namespace specdec::course
