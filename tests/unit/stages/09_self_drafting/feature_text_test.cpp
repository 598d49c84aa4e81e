// A feature layer changes no text, and what it computes depends on the request's text alone: after
// each round, its cache and its next drafts are bit for bit those of a layer that sees the text for
// the first time.
#include "common/speculation/forwarding_drafter.h"
#include "tests/unit/stages/09_self_drafting/feature_fixture.h"

namespace specdec::batch {
namespace {

// Checks a feature layer's drafter from outside.
class Checked final : public ForwardingDrafter {
 public:
  Checked(FeatureDrafting& drafting, const FeatureFolder& folder, const TreeKind& kind)
      : ForwardingDrafter(drafting.self), drafting_(drafting), folder_(folder), kind_(kind) {}

  void draft(std::span<const DraftRequest> requests) override {
    ForwardingDrafter::draft(requests);
    const DraftRequest& r = requests[0];
    FeatureDrafting fresh(folder_, kind_, 1, 16);
    const SequenceId sequence = fresh.rows.create();
    const auto cached = r.context.first(r.context.size() - 1);
    fresh.rows.forward(Segment{sequence, cached, 0}, {});
    Drafts drafts = r.drafts->alike();
    DraftRequest again = r;
    again.sequence = fresh.self.create();
    again.target_sequence = sequence;
    again.drafts = &drafts;
    fresh.self.draft(std::span(&again, 1));
    expect_same_drafts(*r.drafts, drafts);
    text_.assign(r.context.begin(), r.context.end());
    drafted++;
  }
  // After the round, rows of rejected drafts are gone, and those of accepted ones, too.
  void keep(SequenceId sequence, int length, std::span<const int> path) override {
    ForwardingDrafter::keep(sequence, length, path);
    accepted += int(path.size());
    const int kept = drafting_.self.length(sequence);
    EXPECT_EQ(kept, int(text_.size()));
    FeatureDrafting fresh(folder_, kind_, 1, 16);
    const SequenceId target = fresh.rows.create(), own = fresh.drafts.model->create();
    const std::span<const TokenId> text = text_;
    fresh.rows.forward(Segment{target, text.first(text.size() - 1), 0}, {});
    DraftRequest request;
    request.sequence = own;
    request.context = text;
    request.spec_length = 1;
    request.target_sequence = target;
    fresh.drafts.round->begin(std::span(&request, 1));
    if (!fresh.drafts.round->at_once()) {
      fresh.drafts.model->forward(Segment{own, text, 0}, {});
    }
    for (std::size_t i = 0; i < fresh.drafts.layers.size(); i++) {
      const KvCache &got = drafting_.drafts.layers[i]->cache(),
                    &want = fresh.drafts.layers[i]->cache();
      ASSERT_EQ(got.length(sequence), kept - 1 - int(i));
      expect_equal(got, sequence, want, own, drafting_.drafts.layers[i]->layer().block->config());
    }
  }
  int drafted = 0, accepted = 0;

 private:
  static void expect_equal(const KvCache& got, SequenceId sequence, const KvCache& want,
                           SequenceId own, const LlamaConfig& config) {
    for (int block = 0; block < config.n_layers; block++) {
      for (int i = 0; i < got.length(sequence); i++) {
        const auto a = got.memory().read(block, got.slot(sequence, i));
        const auto b = want.memory().read(block, want.slot(own, i));
        EXPECT_TRUE(equal_bits(a.key, b.key) && equal_bits(a.value, b.value))
            << "block " << block << ", row " << i;
      }
    }
  }
  static void expect_same_drafts(const Drafts& got, const Drafts& want) {
    ASSERT_EQ(got.size(), want.size());
    for (int i = 0; i < got.size(); i++) {
      EXPECT_EQ(got.node(i).token, want.node(i).token) << i;
      EXPECT_EQ(got.node(i).parent, want.node(i).parent) << i;
      EXPECT_EQ(got.node(i).draft_prob, want.node(i).draft_prob) << i;
    }
    ASSERT_EQ(got.n_trials(), want.n_trials());
    for (int i = 0; i < got.n_trials(); i++) {
      EXPECT_TRUE(std::ranges::equal(got.probs(got.trials()[std::size_t(i)]),
                                     want.probs(want.trials()[std::size_t(i)])))
          << i;
    }
  }

  FeatureDrafting& drafting_;
  const FeatureFolder& folder_;
  TreeKind kind_;
  std::vector<TokenId> text_;
};

class FeatureText : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  const FeatureFolder folder_ = small_layer(std::get<0>(GetParam()));
  const TreeKind kind_ = kind_of(std::get<1>(GetParam()));
  auto way() const {
    return self_way(kind_, [this](int max_requests, int page_size, int pages) {
      return std::make_unique<FeatureDrafting>(folder_, kind_, max_requests, page_size, pages);
    });
  }
};

TEST_P(FeatureText, GreedilyItIsPlainDecodings) { expect_plain_texts(way()); }

TEST_P(FeatureText, EachRoundIsThatOfAFreshLayer) {
  std::mt19937 random(8);
  int drafted = 0, accepted = 0;
  for (int trial = 0; trial < 6; trial++) {
    BatchRequest r = random_request(random, excerpt(random, 18), kind_.room().levels);
    r.speculation.lenience = 1;
    r.spec_length = kind_.room().levels;
    r.generation.max_new_tokens = 12;
    if (trial % 2 == 0) {  // both draw from nearly all tokens, and agree more often
      r.speculation.sampling = {.temperature = 4};
      r.speculation.draft_temperature = 4;
    }
    FeatureDrafting self(folder_, kind_, 1, trial % 2 == 0 ? kNoPages : 3);
    Checked checked(self, folder_, kind_);
    run_tree_alone(self.rows, checked, *kind_.rule, r);
    drafted += checked.drafted;
    accepted += checked.accepted;
  }
  EXPECT_GT(drafted, 10);
  EXPECT_GT(accepted, 0);
}

TEST_P(FeatureText, ABatchGivesWhatEachRequestHasAlone) { check_workloads(way(), 1); }

INSTANTIATE_TEST_SUITE_P(Layers, FeatureText,
                         ::testing::Combine(::testing::Values("EAGLE", "EAGLE-3", "P-EAGLE", "MTP",
                                                              "MTP-3"),
                                            ::testing::Values("chain", "chains", "top")),
                         [](const auto& test) {
                           std::string name =
                               std::string(std::get<0>(test.param)) + "_" + std::get<1>(test.param);
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace specdec::batch
