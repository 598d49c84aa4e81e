// Which head says what: each draft of a round has the head of its place, each request its own row,
// in a chain as in a tree; with the target's projection, and with others.
#include "stages/09_self_drafting/heads_model.h"

#include <cmath>
#include <random>

#include "tests/embedded_batch.h"

namespace specdec::batch {
namespace {

constexpr int kHeads = 3, kRequests = 2;

const LlamaModel& target_model() { return embedded().draft.model; }  // the smaller one

std::unique_ptr<Heads> random_heads() {
  const int E = target_model().config().d_model;
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 0.1f);
  std::vector<float> weights(std::size_t(kHeads * E * E)), bias(std::size_t(kHeads * E));
  for (auto* list : {&weights, &bias}) {
    for (float& value : *list) value = normal(random);
  }
  const HostMatrix matrix{WeightType::kF32, std::as_bytes(std::span(weights)), kHeads * E, E};
  Backend& backend = target_model().backend();
  return std::make_unique<MedusaHeads>(backend, backend.load_matrix(std::span(&matrix, 1)), bias,
                                       kRequests);
}

// What says the rows of heads: the target's projection, one of fewer tokens, or one for each head.
enum class Says { kTarget, kFewerTokens, kEachItsOwn };

std::vector<DraftHead> random_says(Says kind) {
  const int E = target_model().config().d_model, V = target_model().config().vocab_size;
  std::vector<DraftHead> says(kind == Says::kEachItsOwn ? kHeads : 1);
  if (kind == Says::kTarget) return says;
  std::mt19937 random(4);
  std::normal_distribution<float> normal(0, 0.1f);
  for (DraftHead& head : says) {
    for (int token = 2; token < V; token += 3) head.tokens.push_back(token);
    std::vector<float> weights(head.tokens.size() * std::size_t(E));
    for (float& value : weights) value = normal(random);
    const HostMatrix matrix{WeightType::kF32, std::as_bytes(std::span(weights)),
                            int(head.tokens.size()), E};
    head.matrix = target_model().backend().load_matrix(std::span(&matrix, 1));
  }
  return says;
}

// Two requests whose prompts are cached, and their rounds begun.
class HeadsModelTest : public ::testing::TestWithParam<Says> {
 protected:
  HeadsModelTest() {
    model_.read(rows_);
    std::mt19937 random(5);
    for (int i = 0; i < kRequests; i++) {
      contexts_.push_back(excerpt(random, 12 + 3 * i));
      target_sequences_.push_back(rows_.create());
      sequences_.push_back(model_.create());
      rows_.forward(Segment{target_sequences_.back(), cached(i), 0}, {});
    }
    begin({0, 1});
  }

  std::span<const TokenId> cached(int request) const {
    const auto& context = contexts_[std::size_t(request)];
    return std::span(context).first(context.size() - 1);
  }
  void begin(const std::vector<int>& requests) {
    std::vector<DraftRequest> asked;
    for (const int i : requests) {
      asked.push_back({.sequence = sequences_[std::size_t(i)],
                       .context = contexts_[std::size_t(i)],
                       .spec_length = kHeads,
                       .sampling = {},
                       .drafts = nullptr,
                       .target_sequence = target_sequences_[std::size_t(i)]});
    }
    model_.begin(asked);
  }
  // What a head says of a request, computed for it alone.
  std::vector<float> said(int request, int head) {
    const int E = target_model().config().d_model;
    const DraftHead& says = says_[says_.size() == 1 ? 0 : std::size_t(head)];
    const WeightMatrix& matrix_of_head = says.of(target_model());
    const DeviceArray<float> made(backend_, std::size_t(kHeads * E)),
        logits(backend_, std::size_t(matrix_of_head.rows()));
    heads_->compute(rows_.last(target_sequences_[std::size_t(request)], cached(request)),
                    matrix(made, kHeads, E));
    const DeviceRows row = matrix(logits, 1, matrix_of_head.rows());
    backend_.matmul(matrix(made, kHeads, E).slice(head, 1), matrix_of_head, row);
    const std::vector<float> said = to_host(backend_, row);
    if (says.tokens.empty()) return said;
    std::vector<float> of_token(V_, -INFINITY);
    for (std::size_t i = 0; i < said.size(); i++) of_token[std::size_t(says.tokens[i])] = said[i];
    return of_token;
  }
  // Feeds tokens, and expects each row to be that of a request's head.
  void expect(const std::vector<Segment>& batch, const std::vector<std::pair<int, int>>& heads) {
    const int n = int(heads.size());
    const LogitsBuffer logits(model_, n);
    model_.forward(batch, logits.rows(0, n));
    for (int row = 0; row < n; row++) {
      const auto [request, head] = heads[std::size_t(row)];
      auto want = said(request, head), got = to_host(backend_, logits.rows(row, 1));
      const auto tokens = std::size_t(embedded().tokenizer.vocab_size());
      EXPECT_TRUE(got.size() == tokens || got[tokens] < -1e30f) << "an id that is no token";
      want.resize(tokens);
      got.resize(tokens);
      EXPECT_TRUE(equal_bits(got, want)) << "request " << request << ", head " << head;
    }
  }
  std::span<const TokenId> context(int request) { return contexts_[std::size_t(request)]; }

  Backend& backend_ = target_model().backend();
  const std::size_t V_ = std::size_t(target_model().config().vocab_size);
  CachedLlama llama_{target_model(), kNoPages, kPositions, kRequests};
  TargetRows rows_{llama_.llama, {Outputs::kAfterNorm}, kRequests, 8};
  std::unique_ptr<Heads> heads_ = random_heads();
  std::vector<DraftHead> says_ = random_says(GetParam());
  HeadsModel model_{target_model(), LoadedHeads{random_heads(), random_says(GetParam())},
                    embedded().tokenizer.vocab_size(), kRequests};
  std::vector<std::vector<TokenId>> contexts_;
  std::vector<SequenceId> target_sequences_, sequences_;
  const std::vector<TokenId> any_ = std::vector<TokenId>(4, 7);
};

TEST_P(HeadsModelTest, EachDraftOfAChainHasItsHead) {
  const std::span one(any_.data(), 1);
  expect({{sequences_[0], context(0), 1}, {sequences_[1], context(1), 1}}, {{0, 0}, {1, 0}});
  expect({{sequences_[1], one, 1}}, {{1, 1}});
  expect({{sequences_[1], one, 1}, {sequences_[0], one, 1}}, {{1, 2}, {0, 1}});
}

TEST_P(HeadsModelTest, EachLevelOfATreeHasItsHead) {
  const std::span any(any_);
  const std::vector<int> parents = {-1, -1, 0, 1};
  expect({{sequences_[0], context(0), 1}}, {{0, 0}});
  expect({{sequences_[0], any.first(2), 2, std::span(parents).first(2)}}, {{0, 1}, {0, 1}});
  expect({{sequences_[0], any.first(2), 2, parents}}, {{0, 2}, {0, 2}});
}

// A round of one request alone, after one of both.
TEST_P(HeadsModelTest, ARequestHasItsRowWhateverElseIsDrafted) {
  begin({1});
  expect({{sequences_[1], context(1), 1}}, {{1, 0}});
  begin({1, 0});
  model_.truncate(sequences_[1], int(cached(1).size()));
  const std::span pending = context(1).last(1);
  expect({{sequences_[0], context(0), 1}, {sequences_[1], pending, 1}}, {{0, 0}, {1, 0}});
}

constexpr const char* kNames[] = {"Targets", "FewerTokens", "OneEach"};
INSTANTIATE_TEST_SUITE_P(Projections, HeadsModelTest,
                         ::testing::Values(Says::kTarget, Says::kFewerTokens, Says::kEachItsOwn),
                         [](const auto& test) { return kNames[std::size_t(test.param)]; });

}  // namespace
}  // namespace specdec::batch
