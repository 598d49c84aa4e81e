// A tree of drafts in one pass: every node's logits are those of its path alone, bit for bit, and
// what is kept of a tree leaves the cache as if nothing else had been there.
#include "tests/test_support.h"
#include "tests/tree_fixture.h"

namespace specdec {
namespace {

struct TreeCase {
  std::string model;
  KvType kv_type = KvType::kF32;
};

class LlamaTreeTest : public ::testing::TestWithParam<TreeCase> {
 protected:
  std::unique_ptr<Engine> engine(std::unique_ptr<Backend> backend, int page_size,
                                 int max_pass_rows = 256) const {
    return std::make_unique<Engine>(GetParam().model, std::move(backend), page_size,
                                    LlamaOptions{.max_pass_rows = max_pass_rows}, 4, 320,
                                    WeightFormat::kStored, GetParam().kv_type);
  }
  std::vector<TokenId> context(int length) {
    return random_tokens(length, reference_->llama->vocab_size(), unsigned(length) + 1);
  }

  std::unique_ptr<Engine> reference_ = engine(make_cpu_backend(2), kNoPages);
  std::mt19937 random_{11};
};

TEST_P(LlamaTreeTest, AnyThreadsPagesAndPasses) {
  for (const int threads : {0, 1, 3}) {  // 0: the plain backend
    for (const int page_size : {kNoPages, 1, 3, 16}) {
      for (const int max_pass_rows : {1, 5, 256}) {
        auto backend = threads == 0 ? make_plain_backend() : make_cpu_backend(threads);
        const auto e = engine(std::move(backend), page_size, max_pass_rows);
        SCOPED_TRACE(fmt::format("{} threads, pages of {}, passes of {}", threads, page_size,
                                 max_pass_rows));
        expect_tree_equals_paths(*e, *reference_, context(9), 12, 12, random_);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Trees that begin before, at and behind the border of a chunk of attention, and cross it.
TEST_P(LlamaTreeTest, AnyContext) {
  const auto e = engine(make_cpu_backend(2), 3);
  for (const int length : {0, 1, 56, 60, 62, 63, 64, 65, 100, 126, 128}) {
    const int most = 1 + static_cast<int>(random_() % 12);
    expect_tree_equals_paths(*e, *reference_, context(length), 14, most, random_);
    if (HasFatalFailure()) return;
  }
}

// Trees, chains and prefills share a pass, in any order.
TEST_P(LlamaTreeTest, AnyBatchMates) {
  for (const int max_pass_rows : {4, 256}) {
    const auto e = engine(make_cpu_backend(2), 3, max_pass_rows);
    for (int trial = 0; trial < 12; trial++) {
      std::vector<RandomTree> trees;
      std::vector<std::vector<TokenId>> contexts;
      std::vector<Segment> batch;
      int rows = 0;
      for (int i = 0; i < 4; i++) {
        trees.emplace_back(2 + static_cast<int>(random_() % 7), e->llama->vocab_size(), random_);
        contexts.push_back(context(static_cast<int>(random_() % 70)));
        for (int node = 0; i % 2 == 1 && node < trees[std::size_t(i)].size(); node++) {
          trees[std::size_t(i)].parents[std::size_t(node)] = node - 1;
        }
      }
      for (std::size_t i = 0; i < trees.size(); i++) {
        const SequenceId sequence = e->llama->create();
        if (!contexts[i].empty()) e->forward(sequence, contexts[i], 0);
        batch.push_back({sequence, trees[i].tokens, trees[i].size()});
        if (i % 2 == 0) batch.back().parents = trees[i].parents;  // the others are chains
        rows += trees[i].size();
      }
      std::rotate(batch.begin(), batch.begin() + trial % 4, batch.end());
      const LogitsBuffer logits(*e->llama, rows);
      e->llama->forward(batch, logits.rows(0, rows));
      const HostRows got = host_rows(*e->backend, logits.rows(0, rows));
      int row = 0;
      for (std::size_t n = 0; n < batch.size(); n++) {
        const std::size_t i = (n + std::size_t(trial)) % 4;
        for (int node = 0; node < trees[i].size(); node++) {
          const auto path = trees[i].tokens_of(trees[i].path(node));
          ASSERT_TRUE(
              equal_bits(got[std::size_t(row++)], say_after(*reference_, contexts[i], path)));
        }
      }
      for (const Segment& segment : batch) e->llama->release(segment.sequence);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LlamaTreeTest,
                         ::testing::Values(TreeCase{"untied"}, TreeCase{"one_kv_head"},
                                           TreeCase{"wide_heads"}, TreeCase{"draft"},
                                           TreeCase{"untied", KvType::kBF16},
                                           TreeCase{"draft", KvType::kBF16}),
                         [](const auto& test) {
                           return test.param.model +
                                  (test.param.kv_type == KvType::kF32 ? "" : "_bf16_cache");
                         });

class TreeInputTest : public ::testing::Test {
 protected:
  void feed(std::vector<TokenId> tokens, std::vector<int> parents) {
    const int rows = static_cast<int>(tokens.size());
    const LogitsBuffer logits(*engine_.llama, rows);
    engine_.llama->forward(Segment{sequence_, tokens, rows, parents}, logits.rows(0, rows));
  }

  Engine engine_{"untied", make_cpu_backend(1), 4};
  SequenceId sequence_ = engine_.llama->create();
};

TEST_F(TreeInputTest, OnlyTheDepthCountsAsPositions) {
  const int limit = engine_.llama->max_seq_len();
  engine_.forward(sequence_, random_tokens(limit - 2, engine_.llama->vocab_size(), 1), 0);
  feed({1, 2, 3, 4, 5}, {-1, -1, -1, 0, 1});  // five tokens for two positions
  engine_.llama->truncate(sequence_, limit - 2);
  EXPECT_ERROR(feed({1, 2, 3}, {-1, 0, 1}), "cached tokens and a tree 3 deep exceed the model's");
  EXPECT_EQ(engine_.llama->length(sequence_), limit - 2);
}

TEST_F(TreeInputTest, WrongParents) {
  EXPECT_DEATH(feed({1, 2}, {-1, 1}), "node 1 to follow an earlier one, not 1");
  EXPECT_DEATH(feed({1, 2}, {-1, -2}), "node 1 to follow an earlier one, not -2");
  EXPECT_DEATH(feed({1, 2}, {-1}), "1 nodes for 2 tokens");
  EXPECT_DEATH(feed({1, 2}, {-1, 0, 1}), "3 nodes for 2 tokens, the others among 0 cached ones");
}

TEST_F(TreeInputTest, WrongPlaces) {
  feed({1, 2, 3}, {-1, -1, 0});
  const auto keep = [&](std::vector<int> kept) { engine_.llama->keep(sequence_, 0, kept); };
  EXPECT_DEATH(keep({0, 3}), "places from 0 to 2, ascending, not 3");
  EXPECT_DEATH(keep({1, 0}), "places from 0 to 2, ascending, not 0");
  EXPECT_DEATH(engine_.llama->keep(sequence_, 2, std::vector<int>{1}), "places from 2 to 2");
  keep({});
  EXPECT_EQ(engine_.llama->length(sequence_), 0);
}

}  // namespace
}  // namespace specdec
