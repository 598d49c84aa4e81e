#pragma once
#include <random>
#include <utility>
#include <vector>

#include "common/checkpoint/weight_source.h"
#include "tests/test_support.h"

namespace specdec {

// A target with a random head and no other weights.
class HeadOnly final : public WeightSource {
 public:
  explicit HeadOnly(LlamaConfig config) : config_(std::move(config)) {
    std::mt19937 random(11);
    std::normal_distribution<float> normal(0, 1);
    numbers_.resize(std::size_t(config_.vocab_size) * std::size_t(config_.d_model));
    for (float& number : numbers_) number = normal(random);
  }

  const LlamaConfig& config() const override { return config_; }
  Weight weight(WeightKind kind, int /*layer*/) const override {
    EXPECT_EQ(kind, config_.tied_head ? WeightKind::kEmbedding : WeightKind::kHead);
    return {.view = {DType::kF32,
                     {config_.vocab_size, config_.d_model},
                     std::as_bytes(std::span(numbers_))}};
  }
  std::vector<float> row(int token) const {
    const auto first = numbers_.begin() + std::ptrdiff_t(token) * config_.d_model;
    return {first, first + config_.d_model};
  }

 private:
  LlamaConfig config_;
  std::vector<float> numbers_;
};

}  // namespace specdec
