// Stage 7's ways to choose K, for drafters of stage 9: whichever policy it is, and whatever a round
// costs, the text has the law of the target alone.
#include "common/forwarding_model.h"
#include "tests/test_support.h"
#include "tests/unit/stages/07_adaptive_drafting/named_drafters.h"
#include "tests/unit/stages/08_token_trees/tree_policies_law.h"
#include "tests/unit/stages/09_self_drafting/ignores_drafts.h"

namespace specdec::law {
namespace {

// Sees its drafts, as a feature layer does, and forgets them after the round.
class Layer final : public ForwardingModel, public RoundModel {
 public:
  using ForwardingModel::ForwardingModel;
  void begin(std::span<const DraftRequest>) override {}
  bool at_once() const override { return false; }
};

// Those of stage 7, and gain where drafting costs as much for one draft as for many.
std::vector<NamedPolicy> all_policies(int K) {
  std::vector<NamedPolicy> all = policies(K);
  all.push_back({"gain", [=] {
                   std::vector<double> once(std::size_t(K) + 1, 1.6);
                   once[0] = 1;
                   return std::make_unique<AdaptiveSpecLength>(std::move(once));
                 }});
  return all;
}

// Returns how many laws were of rounds that accepted a draft.
int expect_laws(const Scenario& scenario, const NamedShape& shape, const std::string& name,
                const MakeDrafter& make, const Size& size) {
  int accepting = 0;
  const ContextTable below = table(size.V, 83, random_rows(size.V, 0));
  for (const NamedSiblingRule& rule : sibling_rules()) {
    if (!goes_with(rule, shape)) continue;
    for (const NamedPolicy& policy : all_policies(size.K)) {
      const DraftingLaw result = policy_law(scenario, below, make, policy.make, rule);
      const double difference = largest_difference(result.law, target_law(scenario));
      EXPECT_TRUE(difference <= 1e-12)
          << name << ", " << shape.name << ", " << rule.name << ", " << policy.name << ", "
          << scenario.name << ": " << difference;
      accepting += result.accepted > 0;
    }
  }
  return accepting;
}

TEST(SelfPoliciesLaw, IsTheTargetsForEveryPolicy) {
  const Size size{2, 2, 3};
  int at_once = 0, one_by_one = 0;
  for (const NamedShape& shape :
       {chains(1, 2), chains(2, 2), distinct({2, 1}), top({2, 2}), grown(3, 2, 2)}) {
    for (const Scenario& scenario : scenarios(size, 96)) {
      IgnoresDrafts model(scenario.draft);
      const MakeTrees heads = of_self(model, shape.make);
      at_once += expect_laws(
          scenario, shape, "heads",
          [&](LanguageModel& draft, LanguageModel&) { return heads(draft); }, size);
      std::unique_ptr<Layer> layer;
      one_by_one += expect_laws(
          scenario, shape, "layer",
          [&](LanguageModel& draft, LanguageModel&) {
            layer = std::make_unique<Layer>(draft);
            auto trees = std::make_unique<ModelTreeDrafter>(*layer, shape.make, 64, size.V);
            return std::make_shared<SelfDrafter>(*layer, std::move(trees));
          },
          size);
    }
  }
  EXPECT_GT(at_once, 300);
  EXPECT_GT(one_by_one, 300);
}

// Heads that are asked for more drafts than they have.
class Few final : public ForwardingModel, public RoundModel {
 public:
  using ForwardingModel::ForwardingModel;
  void begin(std::span<const DraftRequest>) override {}
  bool at_once() const override { return false; }
  int max_drafts() const override { return 2; }
};

TEST(SelfPoliciesLaw, HeadsDraftNoMoreThanTheyHave) {
  constexpr int V = 3;
  const ContextTable likely = table(V, 5, random_rows(V, 0));
  TableModel draft(V, likely.row_of());
  Few few(draft);
  SelfDrafter drafter(few, std::make_unique<ModelTreeDrafter>(few, shape<Chains>(1, 5), 64, V));
  EXPECT_EQ(drafter.capacity(1).levels, 1);
  EXPECT_EQ(drafter.capacity(5).levels, 2);
  Drafts drafts(drafter.capacity(5), V);
  const Text context = {0, 1, 2};
  const DraftRequest request{.sequence = drafter.create(),
                             .context = context,
                             .spec_length = 5,
                             .sampling = {},
                             .drafts = &drafts};
  drafter.draft(std::span(&request, 1));
  EXPECT_EQ(drafts.size(), 2);
}

}  // namespace
}  // namespace specdec::law
