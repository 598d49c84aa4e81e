#include "tests/paged_table_model.h"

#include <limits>
#include <map>
#include <random>

#include "stages/02_contiguous_kv_cache/contiguous_kv_cache.h"
#include "stages/03_paged_kv_cache/paged_kv_cache.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using ::testing::ElementsAre;

using Tokens = std::vector<TokenId>;

constexpr KvShape kShape{.n_layers = 1, .n_kv_heads = 1, .head_dim = 1};
constexpr int kVocab = 7;
constexpr int kPagesOfOneSequence = 0;  // as a page size: a contiguous cache

// Two logits that tell all prefixes apart, as far as floats can.
class PrefixRows {
 public:
  std::span<const float> operator()(std::span<const TokenId> prefix) {
    row_.fill(0);
    unsigned hash = 1;
    for (const TokenId token : prefix) hash = hash * 1'000'003 + static_cast<unsigned>(token) + 1;
    row_[0] = static_cast<float>(hash >> 16);
    row_[1] = static_cast<float>(hash & 0xFFFF);
    return row_;
  }

 private:
  std::array<float, kVocab> row_{};
};

std::unique_ptr<KvCache> make_cache(Backend& backend, int page_size) {
  if (page_size == kPagesOfOneSequence) {
    return std::make_unique<ContiguousKvCache>(backend, kShape, 8, 40);
  }
  return std::make_unique<PagedKvCache>(backend, kShape, 120 / page_size, page_size);
}

// Makes the same random calls to a model over a cache and to a TableModel.
class SideBySide {
 public:
  SideBySide(LanguageModel& model, LanguageModel& oracle) : model_(model), oracle_(oracle) {}

  void step() {
    const unsigned choice = below(10);
    if (ids_.size() < 2 || (choice == 0 && ids_.size() < 8)) {
      add([](LanguageModel& model, SequenceId) { return model.create(); });
    } else if (choice == 1 && ids_.size() < 8) {
      add([](LanguageModel& model, SequenceId from) { return model.fork(from); });
    } else if (choice == 2) {
      const auto released = std::next(ids_.begin(), below(ids_.size()));
      model_.release(released->first);
      oracle_.release(released->second);
      ids_.erase(released);
    } else if (choice < 5) {
      truncate();
    } else if (choice < 6) {
      grow_tree();
    } else {
      forward();
    }
    for (const auto& [id, other] : ids_) ASSERT_EQ(model_.length(id), oracle_.length(other));
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t forwards() const { return forwards_; }
  int refused() const { return refused_; }
  int trees() const { return trees_; }

 private:
  using Pair = std::pair<const SequenceId, SequenceId>;

  unsigned below(std::size_t bound) { return static_cast<unsigned>(random_() % bound); }
  const Pair& any() { return *std::next(ids_.begin(), below(ids_.size())); }

  template <typename Make>
  void add(Make make) {
    const Pair from = ids_.empty() ? Pair{0, 0} : any();
    const SequenceId id = make(model_, from.first);
    ASSERT_FALSE(ids_.contains(id));
    ids_.emplace(id, make(oracle_, from.second));
  }

  void truncate() {
    const auto [id, other] = any();
    const auto length = static_cast<int>(below(static_cast<unsigned>(model_.length(id)) + 1));
    model_.truncate(id, length);
    oracle_.truncate(other, length);
  }

  // A tree in one or two segments, of which a path stays.
  void grow_tree() {
    const auto [id, other] = any();
    const int start = model_.length(id), n_nodes = 2 + static_cast<int>(below(7));
    Tokens tokens;
    std::vector<int> parents;
    for (int node = 0; node < n_nodes; node++) {
      tokens.push_back(static_cast<TokenId>(below(kVocab)));
      parents.push_back(static_cast<int>(below(static_cast<unsigned>(node) + 1)) - 1);
    }
    const std::size_t first = 1 + below(tokens.size() - 1);
    for (const auto& [begin, end] : {std::pair{std::size_t{0}, first}, {first, tokens.size()}}) {
      const auto some = std::span(tokens).subspan(begin, end - begin);
      const auto of_some = std::span(parents).first(end);
      const int rows = static_cast<int>(some.size());
      const LogitsBuffer left(model_, rows), right(oracle_, rows);
      try {
        model_.forward(Segment{id, some, rows, of_some}, left.rows(0, rows));
      } catch (const CacheFull&) {
        refused_++;
        model_.truncate(id, start);
        oracle_.truncate(other, start);
        return;
      }
      oracle_.forward(Segment{other, some, rows, of_some}, right.rows(0, rows));
      ASSERT_TRUE(same_bits(model_.backend(), left.rows(0, rows), right.rows(0, rows)));
      forwards_++;
      rows_ += rows;
    }
    std::vector<int> kept;
    for (int node = static_cast<int>(below(tokens.size())); node >= 0;
         node = parents[static_cast<std::size_t>(node)]) {
      kept.insert(kept.begin(), start + node);
    }
    model_.keep(id, start, kept);
    oracle_.keep(other, start, kept);
    trees_++;
  }

  void forward() {
    std::vector<Tokens> texts;
    std::vector<Segment> batch, other_batch;
    for (const auto& [id, other] : ids_) {
      if (below(3) == 0) continue;
      Tokens& text = texts.emplace_back(1 + below(6));
      for (TokenId& token : text) token = static_cast<TokenId>(below(kVocab));
      const auto rows = static_cast<int>(below(text.size() + 1));
      batch.push_back({id, text, rows});
      other_batch.push_back({other, text, rows});
    }
    const int rows = wanted_rows(batch);
    const LogitsBuffer left(model_, 64), right(oracle_, 64);
    try {
      model_.forward(batch, left.rows(0, rows));
    } catch (const CacheFull&) {
      refused_++;
      return;
    }
    oracle_.forward(other_batch, right.rows(0, rows));
    ASSERT_TRUE(same_bits(model_.backend(), left.rows(0, rows), right.rows(0, rows)));
    forwards_++;
    rows_ += rows;
  }

  LanguageModel& model_;
  LanguageModel& oracle_;
  std::map<SequenceId, SequenceId> ids_;  // of the model, of the oracle
  std::mt19937 random_{1};
  std::int64_t rows_ = 0, forwards_ = 0;
  int refused_ = 0, trees_ = 0;
};

class PagedTableModelTest : public ::testing::TestWithParam<int> {
 protected:
  PagedTableModelTest() : cache_(make_cache(*backend_, GetParam())) {}

  void compare(PagedTableModel& model, TableModel& oracle) {
    SideBySide both(model, oracle);
    for (int i = 0; i < 10'000 && !HasFailure(); i++) both.step();
    EXPECT_EQ(model.rows(), both.rows());
    EXPECT_EQ(model.forwards(), both.forwards());
    EXPECT_GT(both.rows(), 5'000);
    EXPECT_GT(both.refused(), 100) << "the cache was full at times";
    EXPECT_GT(both.trees(), 200);
  }

  std::unique_ptr<Backend> backend_ = make_plain_backend();
  std::unique_ptr<KvCache> cache_;
};

INSTANTIATE_TEST_SUITE_P(PageSizes, PagedTableModelTest,
                         ::testing::Values(kPagesOfOneSequence, 1, 3, 16),
                         [](const auto& size) { return "Size" + std::to_string(size.param); });

TEST_P(PagedTableModelTest, SaysWhatATableModelSays) {
  PagedTableModel model(*cache_, kVocab, PrefixRows());
  TableModel oracle(kVocab, PrefixRows());
  compare(model, oracle);
}

TEST_P(PagedTableModelTest, AWindowSufficesForAContextTable) {
  std::mt19937 random(2);
  const ContextTable table(kVocab, [&](int) { return random_weights(kVocab, 0.2, random); });
  PagedTableModel model(*cache_, table);
  TableModel oracle(kVocab, table.row_of());
  compare(model, oracle);
}

TEST_P(PagedTableModelTest, KeepsTheTokensInTheCache) {
  PagedTableModel model(*cache_, kVocab, PrefixRows());
  const Tokens tokens = {3, 1, 4, 1, 5};
  const SequenceId a = model.create();
  model.forward(Segment{a, tokens, 0}, DeviceRows{});
  const SequenceId b = model.fork(a);
  model.truncate(b, 2);
  model.forward(Segment{b, Tokens{6, 6}, 0}, DeviceRows{});
  EXPECT_THAT(model.text(a), ElementsAre(3, 1, 4, 1, 5));
  EXPECT_THAT(model.text(b), ElementsAre(3, 1, 6, 6));
  EXPECT_EQ(cache_->memory().layer(0).rows<float>().keys[cache_->slot(b, 3)], 6);
}

TEST_P(PagedTableModelTest, ACorruptedSlotIsNoticed) {
  PagedTableModel model(*cache_, kVocab, PrefixRows());
  const LogitsBuffer logits(model, 2);
  const SequenceId a = model.create();
  model.forward(Segment{a, Tokens{3, 1, 4, 1, 5}, 0}, DeviceRows{});
  const auto say = [&](int row) {
    model.forward(Segment{a, Tokens{2}, 1}, logits.rows(row, 1));
    model.truncate(a, 5);
  };
  say(0);
  const int slot = cache_->slot(a, 2);
  float& key = cache_->memory().layer(0).rows<float>().keys[slot];
  float& value = cache_->memory().layer(0).rows<float>().values[slot];
  key = 3;  // another token
  say(1);
  EXPECT_FALSE(same_bits(model.backend(), logits.rows(0, 1), logits.rows(1, 1)));
  for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), -1.0f, 7.0f, 2.5f}) {
    key = wrong;
    EXPECT_DEATH(say(1), "position 2 of sequence 0 to hold a token in slot");
  }
  key = 4;
  value = 1;
  EXPECT_DEATH(say(1), "to hold position 2 of sequence 0, not 1");
  value = 2;
  say(1);
  EXPECT_TRUE(same_bits(model.backend(), logits.rows(0, 1), logits.rows(1, 1)));
}

TEST_P(PagedTableModelTest, WhatNobodyWroteIsNoToken) {
  PagedTableModel model(*cache_, kVocab, PrefixRows());
  const SequenceId a = model.create();
  const Extension extension{a, 1};
  cache_->extend({&extension, 1});
  EXPECT_DEATH(model.text(a), "position 0 of sequence 0 to hold a token in slot 0, not nan");
}

TEST_P(PagedTableModelTest, AFailedForwardChangesNothing) {
  PagedTableModel model(*cache_, kVocab, PrefixRows(), 130);
  const LogitsBuffer logits(model, 2);
  const SequenceId a = model.create(), b = model.create();
  const auto forward = [&](const Tokens& one, const Tokens& two) {
    const std::array<Segment, 2> batch = {{{a, one, 1}, {b, two, 1}}};
    model.forward(batch, logits.rows(0, 2));
  };
  forward({1, 2}, {3});
  EXPECT_ERROR(forward({1}, {7}), "token 7 is outside the vocabulary");
  EXPECT_ERROR(forward({1}, {-1}), "token -1 is outside the vocabulary");
  EXPECT_ERROR(forward({1}, Tokens(130)), "the positions exceed 130");
  EXPECT_THROW(forward({1}, Tokens(129)), CacheFull);
  EXPECT_THAT(model.text(a), ElementsAre(1, 2));
  EXPECT_THAT(model.text(b), ElementsAre(3));
  EXPECT_EQ(model.forwards(), 1);
  EXPECT_EQ(model.rows(), 2);
  EXPECT_DEATH(model.forward(Segment{a, Tokens{1}, 1}, logits.rows(0, 2)), "1 rows of logits, not");
  EXPECT_DEATH(model.forward(Segment{a, Tokens{1}, 2}, logits.rows(0, 2)), "logits for 0 to 1");
}

}  // namespace
}  // namespace specdec
