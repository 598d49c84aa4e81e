// A head that corrects each draft by the one before it.
#include <fstream>

#include "common/checkpoint/safetensors_writer.h"
#include "stages/09_self_drafting/markov_model.h"
#include "tests/test_support.h"
#include "tests/unit/stages/09_self_drafting/self_drafting.h"

namespace specdec::batch {
namespace {

constexpr TokenId kMask = 7;

class Markov : public ::testing::Test {
 protected:
  Markov() {
    folder_ = std::make_unique<TemporaryDirectory>();
    write_markov(folder_->path(), V_);
    model_ = std::make_unique<ParallelModel>(cached_.llama, kMask, 4, 2, 20);
    corrected_ = std::make_unique<MarkovModel>(
        *model_, load_markov(folder_->path(), V_, self_target().backend()), 6);
    for (int i = 0; i < 2; i++) {
      const SequenceId sequence = model_->create(), draft = cached_.llama.create();
      const DraftRequest request{sequence, texts_[std::size_t(i)], 4, {}, nullptr, draft};
      requests_.push_back(request);
    }
    model_->begin(requests_);
  }

  // The rows of the drafts, corrected or not. The model forgets them again.
  HostRows rows(LanguageModel& model, std::span<const Segment> batch, int n) {
    const LogitsBuffer logits(model, n);
    model.forward(batch, logits.rows(0, n));
    for (const Segment& segment : batch) {
      model.truncate(segment.sequence,
                     model.length(segment.sequence) - static_cast<int>(segment.tokens.size()));
    }
    return host_rows(model.backend(), logits.rows(0, n));
  }
  double added(TokenId before, std::size_t x) const {
    double sum = 0;
    for (std::size_t r = 0; r < kMarkovRank; r++) {
      sum += double(markov_before(V_)[std::size_t(before) * kMarkovRank + r]) *
             double(markov_after(V_)[x * kMarkovRank + r]);
    }
    return sum;
  }
  // expect_added(kNone, ...): nothing.
  static constexpr TokenId kNone = -1;
  void expect_added(TokenId before, const std::vector<float>& plain,
                    const std::vector<float>& corrected) {
    if (before == kNone) {
      EXPECT_TRUE(equal_bits(plain, corrected));
      return;
    }
    for (std::size_t x = 0; x < plain.size(); x += 97) {
      EXPECT_NEAR(double(corrected[x]), double(plain[x]) + added(before, x), 1e-5) << before;
    }
  }

  const int V_ = self_target().config().vocab_size;
  const std::vector<std::vector<TokenId>> texts_ = {{5, 6, 7}, {8, 9}};
  CachedLlama cached_{self_target(), 3, 40, 2};
  std::unique_ptr<TemporaryDirectory> folder_;
  std::unique_ptr<ParallelModel> model_;
  std::unique_ptr<MarkovModel> corrected_;
  std::vector<DraftRequest> requests_;
};

// All but the row of the pending token, which the model has seen. Chains and nodes of a tree.
TEST_F(Markov, AddsWhatTheDraftBeforeSays) {
  const std::vector<TokenId> chain = {5, 6, 7, 30, 31}, root = {8, 9}, nodes = {30, 40, 50};
  const std::vector<int> parents = {-1, -1, 1};
  const std::vector<Segment> begin = {{requests_[0].sequence, chain, 3},
                                      {requests_[1].sequence, root, 1}};
  const TokenId before[] = {kNone, 30, 31, kNone};
  const HostRows plain = rows(*model_, begin, 4), got = rows(*corrected_, begin, 4);
  for (std::size_t i = 0; i < 4; i++) expect_added(before[i], plain[i], got[i]);

  model_->forward(Segment{requests_[1].sequence, root, 0}, {});
  const std::vector<Segment> tree = {{requests_[1].sequence, nodes, 3, parents}};
  const HostRows plain_nodes = rows(*model_, tree, 3), got_nodes = rows(*corrected_, tree, 3);
  for (std::size_t i = 0; i < 3; i++) expect_added(nodes[i], plain_nodes[i], got_nodes[i]);
}

TEST_F(Markov, OnTheDeviceItIsTheSame) {
  const std::vector<TokenId> chosen = {30, 40};
  std::vector<SequenceId> sequences;
  HostRows want;
  for (const DraftRequest& r : requests_) {
    model_->forward(Segment{r.sequence, r.context, 0}, {});
    const Segment one{r.sequence, std::span(chosen).subspan(sequences.size(), 1), 1};
    want.push_back(rows(*corrected_, std::span(&one, 1), 1)[0]);
    sequences.push_back(r.sequence);
  }
  Backend& backend = corrected_->backend();
  const DeviceArray<std::int32_t> ids(backend, 2);
  backend.upload(chosen.data(), ids.data(), 2 * sizeof(TokenId));
  const LogitsBuffer logits(*corrected_, 2);
  corrected_->forward_chosen(sequences, ids.data(), logits.rows(0, 2));
  EXPECT_EQ(host_rows(backend, logits.rows(0, 2)), want);
}

TEST_F(Markov, WhatDoesNotFitIsRefusedByName) {
  const auto load = [&](int vocab_size) {
    return load_markov(folder_->path(), vocab_size, self_target().backend());
  };
  EXPECT_ERROR(load(V_ - 1), "before.weight has the shape [4096, 3], not [4095, 3]");
  std::ofstream(folder_->path() / "config.json") << R"({"model_type": "markov", "rank": 0})";
  EXPECT_ERROR(load(V_), "rank is 0; it must be from 1 to");
  std::ofstream(folder_->path() / "config.json") << R"({"model_type": "medusa"})";
  EXPECT_ERROR(load(V_), "model_type is not markov");
}

}  // namespace
}  // namespace specdec::batch
