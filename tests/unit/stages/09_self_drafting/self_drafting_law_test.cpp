// Drafts that ignore each other change no distribution, because the q that judges a draft is the
// one that it was drawn from. With the code that runs, along every path.
#include "stages/00_toy_speculation/example_tables.h"
#include "stages/09_self_drafting/heads_model.h"
#include "tests/test_support.h"
#include "tests/unit/stages/08_token_trees/tree_law.h"

namespace specdec::law {
namespace {

constexpr double kExact = 1e-12;

// Says of the draft at each place what it is on average over the drafts before it, by a table of
// what follows each token: all that heads could know at best.
class Marginals final : public SelfModel {
 public:
  explicit Marginals(std::vector<Probs> table)
      : SelfModel(4), backend_(make_plain_backend()), table_(std::move(table)) {}

  void begin(std::span<const DraftRequest> requests) override {
    SPECDEC_CHECK(requests.size() == 1, "one request");
    start_ = static_cast<int>(requests[0].context.size()) - 1;
    rows_.assign(1, table_[std::size_t(requests[0].context.back())]);
  }
  int vocab_size() const override { return static_cast<int>(table_.size()); }
  Backend& backend() const override { return *backend_; }

  // After so many drafts.
  const Probs& row(std::size_t drafts) {
    while (rows_.size() <= drafts) rows_.push_back(next(rows_.back()));
    return rows_[drafts];
  }

 private:
  void say(SequenceId, int position, float* logits) override {
    const Probs& probs = row(std::size_t(position - start_));
    for (std::size_t x = 0; x < probs.size(); x++) logits[x] = float(std::log(probs[x]));
  }
  Probs next(const Probs& probs) const {
    Probs result(probs.size());
    for (std::size_t x = 0; x < probs.size(); x++) {
      for (std::size_t y = 0; y < probs.size(); y++) result[x] += probs[y] * table_[y][x];
    }
    return result;
  }

  std::unique_ptr<Backend> backend_;
  std::vector<Probs> table_;
  std::vector<Probs> rows_;
  int start_ = 0;
};

using Table = std::vector<Probs>;
const Table& target_table() { return toy::example_tables().target_probs; }
const Table& draft_table() { return toy::example_tables().draft_probs; }

ContextTable rows_of(const Table& table) {
  const int V = static_cast<int>(table.size());
  return ContextTable(V, [&](int row) { return table[std::size_t(row % V)]; });
}

// Stage 0's tables after ".", whose drafts are those of a model that ignores them.
Scenario after_full_stop(int K, int new_tokens, std::shared_ptr<SelfModel> model = nullptr) {
  Scenario scenario{"after .", rows_of(target_table()), rows_of(draft_table()), K, new_tokens};
  scenario.prompt = {2, 3};
  if (model) {
    scenario.make_drafter = [model](LanguageModel&) -> std::shared_ptr<Drafter> {
      auto self =
          std::make_unique<SelfDrafter>(*model, std::make_unique<SamplingDrafter>(*model, 64));
      return std::shared_ptr<Drafter>(std::move(self));
    };
  }
  return scenario;
}

double tokens_of_first_round(const Scenario& scenario) {
  double sum = 0;
  walk(
      scenario, scenario.prompt, request_of(scenario.prompt, scenario.new_tokens),
      [](const Generation& generation) { return !generation.tokens().empty(); },
      [&](const Generation&, const std::vector<Round>& rounds, double probability) {
        sum += probability * rounds.at(0).emitted();
      });
  return sum;
}

TEST(SelfDraftingLaw, ChainsHaveTheTargets) {
  for (const Table& table : {target_table(), draft_table()}) {
    for (const std::string_view rule :
         {"rejection", "at-least", "non-iterative", "sample-and-match", "one-hot"}) {
      for (const int K : {1, 2, 3}) {
        Scenario scenario = after_full_stop(K, 3, std::make_shared<Marginals>(table));
        scenario.options.rule = &find_acceptance_rule(rule);
        const double difference =
            largest_difference(speculation_law_by_rounds(scenario), target_law(scenario));
        EXPECT_TRUE(difference <= kExact) << rule << ", K = " << K << ": " << difference;
      }
    }
  }
}

TEST(SelfDraftingLaw, TokensPerRound) {
  const auto per_round = [](int K, const Table* table) {
    return tokens_of_first_round(
        after_full_stop(K, K + 1, table ? std::make_shared<Marginals>(*table) : nullptr));
  };
  const double target[] = {2, 2.6595, 3.0495}, draft[] = {2, 2.58, 2.9269},
               one_by_one[] = {2, 2.665, 3.1675};
  for (int K = 1; K <= 3; K++) {
    EXPECT_NEAR(per_round(K, &target_table()), target[K - 1], 5e-5) << K;
    EXPECT_NEAR(per_round(K, &draft_table()), draft[K - 1], 5e-5) << K;
    EXPECT_NEAR(per_round(K, nullptr), one_by_one[K - 1], 5e-5) << K;
  }
}

// Draws from the marginals, but hands over what the draft says after the drafts before.
class Pretends final : public Drafter {
 public:
  SequenceId create() override { return 0; }
  void release(SequenceId) override {}
  void truncate(SequenceId, int) override {}
  int length(SequenceId) const override { return 0; }
  void draft(std::span<const DraftRequest> requests) override {
    const DraftRequest& request = requests[0];
    marginals_.begin(requests);
    request.drafts->clear();
    TokenId before = request.context.back();
    for (int i = 0; i < request.spec_length; i++) {
      const int position = static_cast<int>(request.context.size()) + i;
      const TokenId token =
          request.sampling.random->token(marginals_.row(std::size_t(i)), position, Purpose::kDraft);
      const std::span<double> claimed = request.drafts->next_probs();
      for (std::size_t x = 0; x < claimed.size(); x++) {
        claimed[x] = std::max(draft_table()[std::size_t(before)][x], 1e-300);  // it may be drawn
      }
      request.drafts->add_drawn(token);
      before = token;
    }
  }

 private:
  Marginals marginals_{draft_table()};
};

TEST(SelfDraftingLaw, JudgedByAnotherQItIsNotTheTargets) {
  Scenario scenario = after_full_stop(2, 2);
  scenario.make_drafter = [](LanguageModel&) { return std::make_shared<Pretends>(); };
  EXPECT_NEAR(largest_difference(speculation_law_by_rounds(scenario), target_law(scenario)),
              0.09025, 1e-6);
}

}  // namespace
}  // namespace specdec::law
