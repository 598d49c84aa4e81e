#pragma once
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "stages/08_token_trees/block_verification.h"
#include "stages/08_token_trees/sibling_rules.h"
#include "tests/course/probes/facts.h"
#include "tests/course/probes/tree_scenes.h"

// Drafts that follow one node, and drafts that follow each other, judged: for the probe of stage 8.
namespace specdec::course {

// ---- 8.5

struct DraftedToken {
  TokenId token = 0;
  Probs probs;  // that it was drawn from; empty: it is certain
};

// The trials after the root of a tree.
inline Drafts tree_of(const std::vector<DraftedToken>& drafts, int V) {
  Drafts tree = roomy_tree(V);
  for (const DraftedToken& draft : drafts) {
    int number = Drafts::kCertain;
    if (!draft.probs.empty()) {
      number = tree.add_probs();
      std::ranges::copy(draft.probs, tree.probs_to_fill(number).begin());
    }
    add_trial(tree, Drafts::kRoot, draft.token, number, 0.5);
  }
  return tree;
}

// What is left of q where a token is drawn without replacement.
inline Probs without(Probs probs, TokenId token) {
  probs[std::size_t(token)] = 0;
  return normal(probs);
}

struct ChainRule {
  const char* name;
  SiblingRule rule;
};
inline constexpr std::array<ChainRule, 2> kChainRules = {
    {{"rejection", rejection_chain}, {"at least", at_least_chain}}};

inline void sibling_facts(const ChainRule& rule, const Probs& target_probs,
                          const std::vector<DraftedToken>& drafts, std::optional<bool> answer,
                          const std::string& when) {
  const int V = static_cast<int>(std::ssize(target_probs));
  const Drafts tree = tree_of(drafts, V);
  Witness random(1);
  random.answer = answer;
  Probs owed(std::size_t(V), 0.125);  // left over from other siblings
  const SiblingDecision decision =
      rule.rule({6, tree, tree.trials(Drafts::kRoot), target_probs}, random, owed);
  fact(fmt::format("probabilities to accept, trial by trial, {}", when),
       exact(random.probabilities));
  fact(fmt::format("trials tested, {}", when), decision.tested);
  fact(fmt::format("node that the text goes on with, {}", when), decision.node);
  fact(fmt::format("distribution of the correction, {}", when), exact(random.drawn_from));
  fact(fmt::format("numbers in the names of the draws, {}", when), random.indices);
  fact(fmt::format("token, {}", when), decision.token);
}

inline void tries_one_after_another(std::uint64_t seed) {
  constexpr int V = 5;
  const Probs p = probs_of(seed, 0, V, false), q = probs_of(seed, 1, V, false);
  const Probs r = probs_of(seed, 3, V, true), s = probs_of(seed, 5, V, false);
  struct Case {
    std::string name;
    std::vector<DraftedToken> drafts;
  };
  const Case cases[] = {
      {"one draft", {{2, q}}},
      {"two drafts from q", {{0, q}, {3, q}}},
      {"the same token twice", {{1, q}, {1, q}, {4, q}}},
      {"drafts without replacement", {{1, q}, {0, without(q, 1)}, {2, without(without(q, 1), 0)}}},
      {"drafts from three distributions", {{4, q}, {2, r}, {0, s}}},
      {"certain tokens", {{3, {}}, {1, {}}}},
      {"certain tokens, one of them twice", {{3, {}}, {3, {}}, {0, {}}}}};
  for (const ChainRule& rule : kChainRules) {
    for (const Case& c : cases) {
      const std::string when = fmt::format("{}, {}", c.name, rule.name);
      sibling_facts(rule, p, c.drafts, false, when + ", refused where chance decides");
      sibling_facts(rule, p, c.drafts, {}, when);
    }
  }
}

// The distribution of what comes out, over all drafts and all random numbers.
inline void law_of_siblings(std::uint64_t seed, const ChainRule& rule, int count, bool replaced) {
  constexpr int V = 3;
  const Probs p = probs_of(seed, 0, V, false), q = probs_of(seed, 1, V, false);
  Probs law(V);
  double accepted = 0;
  EveryOutcome random;
  do {
    std::vector<DraftedToken> drafts;
    Probs left = q;
    for (int k = 0; k < count; k++) {
      const TokenId token = random.token(left, 6, Purpose::kDraft, k);
      drafts.push_back({token, left});
      if (!replaced) left = without(left, token);
    }
    const Drafts tree = tree_of(drafts, V);
    Probs owed(V);
    const auto decision = rule.rule({6, tree, tree.trials(Drafts::kRoot), p}, random, owed);
    if (decision.token >= 0 && decision.token < V) {
      law[std::size_t(decision.token)] += random.probability();
    }
    if (decision.node != Drafts::kRoot) accepted += random.probability();
  } while (random.next());
  const std::string when = fmt::format("{} drafts {}, {}", count,
                                       replaced ? "from q" : "without replacement", rule.name);
  fact(fmt::format("distribution of the token, {}", when), exact(law, kClose));
  fact(fmt::format("probability that a draft is kept, {}", when), exact(Probs{accepted}, kClose));
}

inline void keeps_the_law_of_siblings(std::uint64_t seed) {
  for (const ChainRule& rule : kChainRules) {
    for (const int count : {1, 2, 3}) law_of_siblings(seed, rule, count, true);
    law_of_siblings(seed, rule, 2, false);
  }
}

// ---- 8.6

// What both models say along a chain.
struct BlockScene {
  std::vector<Probs> target, draft;  // after i drafts
  Tokens tokens;

  DraftedBlock block() const {
    return {11, tokens, [this](int i) { return std::span<const double>(target[std::size_t(i)]); },
            [this](int i) { return std::span<const double>(draft[std::size_t(i)]); }};
  }
};

inline BlockScene random_block(std::uint64_t seed, int n, int V) {
  BlockScene scene;
  for (int i = 0; i <= n; i++) {
    scene.target.push_back(probs_of(seed, 2 * i, V, seed % 2 == 1));
    scene.draft.push_back(probs_of(seed, 2 * i + 1, V, false));
  }
  scene.draft.pop_back();
  scene.tokens = tokens_of(seed, n, V);
  return scene;
}

inline void block_facts(const BlockScene& scene, std::optional<bool> answer, std::uint64_t dice,
                        const std::string& when) {
  Witness random(dice);
  random.answer = answer;
  Probs owed(scene.target.front().size(), 0.125);  // left over from another block
  const BlockDecision decision = verify_block(scene.block(), random, owed);
  fact(fmt::format("probabilities that the prefixes pass, {}", when), exact(random.probabilities));
  fact(fmt::format("drafts accepted, {}", when), decision.accepted);
  fact(fmt::format("distribution of the token after them, {}", when),
       exact(normal(random.drawn_from)));  // a sum other than 1 is no mistake
  fact(fmt::format("positions of the draws, {}", when), random.asked);
  fact(fmt::format("purposes of the draws, {}", when), random.purposes);
  fact(fmt::format("indices in the names of the draws, {}", when), random.indices);
  fact(fmt::format("token, {}", when), decision.token);
}

inline void tests_every_prefix(std::uint64_t seed) {
  const Probs p = {1.0 / 3, 2.0 / 3}, q = {2.0 / 3, 1.0 / 3};
  block_facts({{p, p}, {q}, {0}}, false, 1, "one draft, refused");
  block_facts({{p, p, p}, {q, q}, {0, 1}}, {}, 1, "the paper's p and q, drafts 0 and 1");
  block_facts({{p, p, p}, {q, q}, {0, 0}}, false, 1,
              "the paper's p and q, drafts 0 and 0, refused");
  block_facts({{p, p, p}, {p, p}, {0, 1}}, {}, 1, "p and q are equal");
  block_facts({{p, p, p}, {{}, {}}, {1, 0}}, false, 1, "two certain tokens, refused");
  block_facts({{p}, {}, {}}, {}, 1, "no drafts");
  const BlockScene scene = random_block(seed, 4, 5);
  block_facts(scene, true, 1, "four drafts, all tests passed");
  block_facts(scene, false, 1, "four drafts, no test passed");
  for (std::uint64_t i = 0; i < 6; i++) {
    block_facts(random_block(seed + i, 3, 4), {}, i, fmt::format("random block {}", i));
  }
}

// The distribution of a text of K + 1 tokens: what a block emits, and then what the target says.
inline void law_of_blocks(std::uint64_t seed, int K) {
  constexpr int V = 3;
  const auto row = [&](const Tokens& text, int model) {  // 0: the target, 1: the draft
    return probs_of(prefix_number(seed, text) % 1000, model, V, false);
  };
  std::size_t texts = V;
  for (int i = 0; i < K; i++) texts *= V;
  Probs law(texts);
  double accepted = 0;
  EveryOutcome random;
  do {
    BlockScene scene;
    for (int i = 0; i <= K; i++) {
      scene.target.push_back(row(scene.tokens, 0));
      if (i == K) break;
      scene.draft.push_back(row(scene.tokens, 1));
      scene.tokens.push_back(random.token(scene.draft.back(), 11 + i, Purpose::kDraft));
    }
    Probs owed(V);
    const BlockDecision decision = verify_block(scene.block(), random, owed);
    Tokens text(scene.tokens.begin(), scene.tokens.begin() + std::clamp(decision.accepted, 0, K));
    text.push_back(decision.token);
    while (std::ssize(text) <= K) {
      text.push_back(random.token(row(text, 0), 11 + int(std::ssize(text)), Purpose::kTarget));
    }
    std::size_t number = 0;
    for (const TokenId token : text) number = number * V + std::size_t(token);
    if (number < texts) law[number] += random.probability();
    accepted += decision.accepted * random.probability();
  } while (random.next());
  fact(fmt::format("probabilities of all texts, K = {}", K), exact(law, kClose));
  fact(fmt::format("drafts accepted on average, K = {}", K), exact(Probs{accepted}, kClose));
}

inline void keeps_the_law_of_blocks(std::uint64_t seed) {
  for (const int K : {1, 2, 3}) law_of_blocks(seed, K);
}

}  // namespace specdec::course
