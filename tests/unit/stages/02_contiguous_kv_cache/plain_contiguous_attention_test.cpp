#include "stages/02_contiguous_kv_cache/plain_contiguous_attention.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "stages/02_contiguous_kv_cache/contiguous_kv_cache.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

// Rows of queries at several positions of one sequence, over a contiguous cache.
class Case {
 public:
  Case(Backend& backend, const HeadShape& heads, std::vector<int> positions, unsigned seed)
      : heads_(heads),
        positions_(std::move(positions)),
        generator_(seed),
        cache_(backend, {1, heads.n_kv_heads, heads.head_dim}, 2, length() + 3) {
    cache_.create();  // the sequence under test is the second, so that no offset is zero
    sequence_ = cache_.create();
    const Extension all{sequence_, length()};
    cache_.extend({&all, 1});
    // Between the sequences and behind the last position lies what nobody may read.
    const int slots = cache_.memory().slots(), width = cache_.memory().shape().width();
    std::fill_n(layer().keys, slots * width, std::numeric_limits<float>::quiet_NaN());
    std::fill_n(layer().values, slots * width, std::numeric_limits<float>::quiet_NaN());
    for (int i = 0; i < length() * width; i++) {
      layer().keys[cache_.slot(sequence_, 0) * width + i] = random();
      layer().values[cache_.slot(sequence_, 0) * width + i] = random();
    }
    q_.resize(positions_.size() * row_width());
    for (float& element : q_) element = random();
  }

  std::vector<float> plain() const {
    std::vector<float> out(q_.size());
    const int first = cache_.slot(sequence_, 0) * cache_.memory().shape().width();
    for (std::size_t t = 0; t < positions_.size(); t++) {
      plain_contiguous_attention(q_.data() + t * row_width(), layer().keys + first,
                                 layer().values + first, positions_[t], heads_,
                                 out.data() + t * row_width());
    }
    return out;
  }

  std::vector<float> of(Backend& backend) const {
    const int rows = static_cast<int>(positions_.size()), width = static_cast<int>(row_width());
    std::vector<float> out(q_.size());
    const std::vector<std::int32_t> starts(positions_.size(), 0);
    const RowPlaces places{.positions = positions_.data(),
                           .slots = starts.data(),  // attention reads none
                           .table_starts = starts.data(),
                           .page_tables = cache_.pages(sequence_).data(),
                           .page_size = cache_.page_size()};
    backend.attention({q_.data(), rows, width, width}, cache_.memory().layer(0), places, heads_,
                      {out.data(), rows, width, width});
    return out;
  }

  // softmax(q K^T / sqrt(D)) V in double precision.
  std::vector<double> exact() const {
    std::vector<double> out;
    const int width = cache_.memory().shape().width(), d = heads_.head_dim;
    for (std::size_t t = 0; t < positions_.size(); t++) {
      for (int h = 0; h < heads_.n_heads; h++) {
        const int column = h / (heads_.n_heads / heads_.n_kv_heads) * d;
        std::vector<double> sums(static_cast<std::size_t>(d));
        double weight_sum = 0;
        for (int j = 0; j <= positions_[t]; j++) {
          const int row = cache_.slot(sequence_, j) * width + column;
          double score = 0;
          for (int i = 0; i < d; i++) {
            score += double{q_[t * row_width() + static_cast<std::size_t>(h * d + i)]} *
                     layer().keys[row + i];
          }
          const double weight = std::exp(score / std::sqrt(d));
          weight_sum += weight;
          for (int i = 0; i < d; i++) {
            sums[static_cast<std::size_t>(i)] += weight * layer().values[row + i];
          }
        }
        for (const double sum : sums) out.push_back(sum / weight_sum);
      }
    }
    return out;
  }

 private:
  int length() const { return std::ranges::max(positions_) + 1; }
  std::size_t row_width() const {
    return static_cast<std::size_t>(heads_.n_heads * heads_.head_dim);
  }
  KvRows<float> layer() const { return cache_.memory().layer(0).rows<float>(); }
  // -2 .. 2 in steps of 2^-13
  float random() { return static_cast<float>(generator_() >> 18) / 4096 - 2; }

  HeadShape heads_;
  std::vector<std::int32_t> positions_;
  std::mt19937 generator_;
  ContiguousKvCache cache_;
  SequenceId sequence_ = 0;
  std::vector<float> q_;  // [positions, H * D]
};

const std::vector<HeadShape> kHeadShapes = {
    {3, 1, 128}, {4, 1, 64}, {4, 2, 2}, {2, 2, 20}, {1, 1, 34}};
const std::vector<std::vector<int>> kPositions = {
    {0}, {1}, {62}, {63}, {64}, {65}, {127}, {128}, {300}, {0, 1, 2, 63, 64, 200}};

template <typename MakeBackend>
void expect_same_bits(MakeBackend make_backend) {
  const std::unique_ptr<Backend> backend = make_backend();
  for (const HeadShape& heads : kHeadShapes) {
    for (const std::vector<int>& positions : kPositions) {
      const Case example(*backend, heads, positions, 7);
      const std::vector<float> got = example.plain(), want = example.of(*backend);
      ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
          << backend->name() << ", " << heads.n_heads << ":" << heads.n_kv_heads << " heads of "
          << heads.head_dim << ", last position " << positions.back();
    }
  }
}

TEST(PlainContiguousAttentionTest, GivesTheBitsOfThePlainBackend) {
  expect_same_bits([] { return make_plain_backend(); });
}

TEST(PlainContiguousAttentionTest, GivesTheBitsOfTheFastBackend) {
  expect_same_bits([] { return make_cpu_backend(2); });
}

TEST(PlainContiguousAttentionTest, IsAttention) {
  const auto backend = make_plain_backend();
  for (const HeadShape& heads : kHeadShapes) {
    for (const std::vector<int>& positions : kPositions) {
      const Case example(*backend, heads, positions, 8);
      const std::vector<float> got = example.plain();
      const std::vector<double> want = example.exact();
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < got.size(); i++) {
        // The values are at most 2. A score of up to 4 sqrt(D) has an error of some 2^-24 times as
        // much, by which the weight is off in proportion.
        const double tolerance = 2 * 8 * 4 * std::sqrt(heads.head_dim) * 0x1p-24;
        ASSERT_TRUE(std::abs(got[i] - want[i]) <= tolerance)
            << got[i] << " for " << want[i] << ", element " << i;
      }
    }
  }
}

}  // namespace
}  // namespace specdec
