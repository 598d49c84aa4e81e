// Drafts that ignore each other change no distribution, because the q that judges a draft is the
// one that it was drawn from. With the code that runs, along every path.
#include <array>
#include <map>

#include "common/speculation/forwarding_drafter.h"
#include "stages/00_toy_speculation/example_tables.h"
#include "tests/test_support.h"
#include "tests/unit/stages/09_self_drafting/ignores_drafts.h"

namespace specdec::law {
namespace {

// Says of the draft at each place what it is on average over the drafts before it, by a table of
// what follows each token: all that heads could know at best. first: of the draft at the first
// place, which look-ahead tokens take from the target.
class Marginals final : public SelfModel {
 public:
  explicit Marginals(std::vector<Probs> table) : Marginals(table, table) {}
  Marginals(std::vector<Probs> first, std::vector<Probs> table)
      : SelfModel(4),
        backend_(make_plain_backend()),
        first_(std::move(first)),
        table_(std::move(table)) {}

  void begin(std::span<const DraftRequest> requests) override {
    SPECDEC_CHECK(requests.size() == 1, "one request");
    start_ = static_cast<int>(requests[0].context.size()) - 1;
    rows_.assign(1, first_[std::size_t(requests[0].context.back())]);
  }
  int vocab_size() const override { return static_cast<int>(table_.size()); }
  Backend& backend() const override { return *backend_; }

  // drafts: how many precede the row.
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
  std::vector<Probs> first_, table_;
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

// Look-ahead tokens after "the", where the tables differ. The first draft is always accepted.
TEST(SelfDraftingLaw, LookaheadBeginsWithTheTargetsOwn) {
  const Table &p = target_table(), &q = draft_table();
  const auto lookahead = std::make_shared<Marginals>(p, q);
  const std::size_t V = p.size();
  const TokenId the = 0;
  const auto min_of = [&](const Probs& a, const Probs& b, std::size_t x) {
    return std::min(a[x], b[x]);
  };
  const Probs& first = p[std::size_t(the)];
  Probs second(V), third(V);
  for (std::size_t x = 0; x < V; x++) {
    for (std::size_t y = 0; y < V; y++) second[y] += first[x] * q[x][y];
  }
  for (std::size_t x = 0; x < V; x++) {
    for (std::size_t y = 0; y < V; y++) third[y] += second[x] * q[x][y];
  }
  double two = 0, three = 0;  // the probability that two drafts are accepted, and that three are
  for (std::size_t x = 0; x < V; x++) {
    for (std::size_t y = 0; y < V; y++) {
      const double both = first[x] * min_of(second, p[x], y);
      two += both;
      for (std::size_t z = 0; z < V; z++) three += both * min_of(third, p[y], z);
    }
  }
  const double want[] = {2, 2 + two, 2 + two + three};
  for (const int K : {1, 2, 3}) {
    Scenario scenario = after_full_stop(K, K + 1, lookahead);
    scenario.prompt = {2, the};
    EXPECT_NEAR(tokens_of_first_round(scenario), want[K - 1], 1e-6) << K;  // of float logits
    EXPECT_LE(largest_difference(speculation_law_by_rounds(scenario), target_law(scenario)),
              kExact);
  }
}

// ---- trees

void expect_laws(const std::vector<Scenario>& scenarios, const std::vector<NamedShape>& shapes) {
  int accepting = 0;
  for (const NamedShape& shape : shapes) {
    for (const NamedSiblingRule& rule : sibling_rules()) {
      if (!goes_with(rule, shape)) continue;
      for (const Scenario& scenario : scenarios) {
        IgnoresDrafts model(scenario.draft);
        const TreeLaw result = tree_law_of(scenario, of_self(model, shape.make), rule);
        const double difference = largest_difference(result.law, target_law(scenario));
        EXPECT_TRUE(difference <= kExact)
            << rule.name << ", " << shape.name << ", " << scenario.name << ": " << difference;
        accepting += result.accepted > 0;
      }
    }
  }
  EXPECT_GT(accepting, 10);
}

TEST(SelfDraftingLaw, TreesHaveTheTargets) {
  expect_laws(scenarios({2, 3, 3}, 91),
              {chains(1, 3), chains(2, 2), distinct({2, 1, 1}), top({2, 2}), grown(4, 2, 3)});
  expect_laws(scenarios({3, 2, 2}, 92), {chains(1, 2), chains(2, 2), chains(3, 1), distinct({2, 2}),
                                         top({3, 2}), grown(5, 3, 2)});
  expect_laws({after_full_stop(2, 2)}, {chains(1, 2), chains(2, 1), distinct({2, 1}), top({4, 3})});
}

// Temperatures that differ, filters, penalties whose history is the path, and a text that ends
// within a tree.
TEST(SelfDraftingLaw, TreesHaveTheTargetsWhateverTheOptions) {
  std::vector<Scenario> all = scenarios_with_options({3, 2, 2}, 93);
  all.push_back(scenarios({3, 3, 3}, 94)[0]);
  all.back().eos_ids = {2};
  expect_laws(all, {chains(1, 2), chains(2, 2), distinct({2, 1}), top({2, 2}), grown(3, 2, 2)});
}

// ---- another q

// Drafts as they are, which hand over what stage 0's draft says after the tokens before each.
class Pretends final : public ForwardingDrafter {
 public:
  explicit Pretends(std::shared_ptr<Drafter> drafter)
      : ForwardingDrafter(*drafter), drafter_(std::move(drafter)) {}

  void draft(std::span<const DraftRequest> requests) override {
    ForwardingDrafter::draft(requests);
    Drafts& drafts = *requests[0].drafts;
    for (const Drafts::Trial& trial : drafts.trials()) {
      const int parent = drafts.node(trial.node).parent;
      const TokenId before =
          parent == Drafts::kRoot ? requests[0].context.back() : drafts.token(parent);
      const Probs& claimed = draft_table()[std::size_t(before)];
      const std::span<double> probs = drafts.probs_to_fill(trial.probs);
      for (std::size_t x = 0; x < probs.size(); x++) {
        probs[x] = std::max(claimed[x], 1e-300);  // it may be drawn
      }
    }
  }

 private:
  std::shared_ptr<Drafter> drafter_;
};

double off(const NamedShape& shape, const NamedSiblingRule& rule, bool pretends) {
  const Scenario scenario = after_full_stop(2, 2);
  Marginals model(draft_table());
  const MakeTrees own = of_self(model, shape.make);
  const auto make = [&](LanguageModel& draft) -> std::shared_ptr<Drafter> {
    if (!pretends) return own(draft);
    return std::make_shared<Pretends>(own(draft));
  };
  return largest_difference(tree_law_of(scenario, make, rule).law, target_law(scenario));
}

// As sitting 9.6 says. One rule never looks at q.
TEST(SelfDraftingLaw, JudgedByAnotherQItIsNotTheTargets) {
  const NamedShape shapes[] = {chains(1, 2), chains(2, 2), distinct({2, 1})};
  const std::map<std::string_view, std::array<double, 3>> wrong = {
      {"rejection", {.09025, .09630, .09025}},
      {"at-least", {.08300, .10147, .08300}},
      {"non-iterative", {.08100, .09801, .08100}},
      {"k-sequential", {.09025, .09787, 0}},
      {"block", {.09025, 0, 0}},
      {"sample-and-match", {0, 0, 0}}};
  for (std::size_t i = 0; i < std::size(shapes); i++) {
    for (const NamedSiblingRule& rule : sibling_rules()) {
      if (!goes_with(rule, shapes[i])) continue;
      const std::string name = fmt::format("{}, {}", rule.name, shapes[i].name);
      EXPECT_LE(off(shapes[i], rule, false), kExact) << name;
      EXPECT_NEAR(off(shapes[i], rule, true), wrong.at(rule.name)[i], 6e-6) << name;
    }
  }
}

// ---- races, which have too many paths

// The dice of one seed after another.
class ManySeeds final : public RandomSource {
 public:
  static constexpr int kSeeds = 200;

  TokenId token(std::span<const double> probs, int position, Purpose purpose, int index) override {
    return dice_.token(probs, position, purpose, index);
  }
  bool accept(double probability, int position, int index) override {
    return dice_.accept(probability, position, index);
  }
  TokenId race(std::span<const double> probs, int position) override {
    return dice_.race(probs, position);
  }
  double probability() const { return 1.0 / kSeeds; }
  bool next() {
    dice_ = Dice(std::uint64_t(++seed_));
    return seed_ < kSeeds;
  }

 private:
  int seed_ = 0;
  Dice dice_{0};
};

// Whatever drafts, a text of `coupled` is that of plain decoding with the same noise.
TEST(SelfDraftingLaw, CoupledGivesThePlainTextOfEachSeed) {
  for (const NamedShape& shape : {chains(1, 2), chains(2, 2), distinct({2, 1}), top({2, 2})}) {
    for (const Scenario& scenario : scenarios({3, 2, 4}, 95)) {
      IgnoresDrafts model(scenario.draft);
      std::uint64_t seed = 0;
      double accepted = 0;
      walk_trees<ManySeeds, SamplingTreeJudge>(
          scenario, of_self(model, shape.make), find_sibling_rule("coupled"), scenario.prompt,
          request_of(scenario.prompt, scenario.new_tokens), [](const Generation&) { return false; },
          [&](const Generation& generation, const std::vector<Round>& rounds, double) {
            Dice dice(seed++);
            Text plain;
            for (int i = 0; i < scenario.new_tokens; i++) {
              const int position = int(scenario.prompt.size()) + i;
              plain.push_back(dice.race(target_probs_after(scenario, plain), position));
            }
            ASSERT_EQ(text_of(generation), plain) << shape.name << ", " << scenario.name;
            for (const Round& round : rounds) accepted += round.accepted;
          });
      EXPECT_EQ(seed, std::uint64_t(ManySeeds::kSeeds));
      EXPECT_EQ(accepted > 0, scenario.name.find("disjoint") == std::string::npos);
    }
  }
}

}  // namespace
}  // namespace specdec::law
