#include "stages/08_token_trees/token_tree.h"

#include <random>

#include "stages/08_token_trees/lookup_tree_drafter.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using Trial = Drafts::Trial;

constexpr int kRoot = Drafts::kRoot, kCertain = Drafts::kCertain;

Capacity room(int nodes, int trials, int probs = 0) {
  return {.levels = nodes, .nodes = nodes, .trials = trials, .probs = probs, .verified = nodes};
}

std::vector<int> nodes_of(std::span<const Trial> trials) {
  std::vector<int> nodes;
  for (const Trial& trial : trials) nodes.push_back(trial.node);
  return nodes;
}

// Four drafts: 5 7, 5 8, 6 7, 5 7.
Drafts four_drafts() {
  Drafts tree(room(5, 8), 10);
  for (const TokenId token : {5, 5, 6, 5}) add_trial(tree, kRoot, token, kCertain, 0.5);
  for (const TokenId token : {7, 8, 7}) add_trial(tree, 0, token, kCertain, 0.5);
  add_trial(tree, 1, 7, kCertain, 0.25);
  return tree;
}

TEST(TokenTreeTest, DraftsShareNodesAndKeepTheirTrials) {
  const Drafts tree = four_drafts();
  EXPECT_EQ(tree.size(), 5);
  EXPECT_EQ(tree.n_trials(), 8);
  EXPECT_EQ(tree.length(), 2);
  EXPECT_EQ(nodes_of(tree.trials(kRoot)), (std::vector<int>{0, 0, 1, 0}));
  EXPECT_EQ(nodes_of(tree.trials(0)), (std::vector<int>{2, 3, 2}));
  EXPECT_EQ(nodes_of(tree.trials(1)), (std::vector<int>{4}));
  EXPECT_TRUE(tree.trials(4).empty());
  EXPECT_EQ(tree.drafts_through(0), 3);
  EXPECT_EQ(tree.drafts_through(1), 1);
  EXPECT_EQ(tree.child(1, 7), 4);
  EXPECT_EQ(tree.child(1, 8), kRoot);
  EXPECT_DOUBLE_EQ(tree.node(4).draft_prob, 0.125);
  const std::span<const int> parents = tree.parents();
  EXPECT_EQ(std::vector<int>(parents.begin(), parents.end()),
            (std::vector<int>{-1, 0, 0, 1, 1, 2}));
}

TEST(TokenTreeTest, PruningKeepsNumbersTrialsAndPathsTogether) {
  Drafts tree = four_drafts();
  tree.prune(std::vector<int>{1, 4});
  EXPECT_EQ(tree.size(), 2);
  EXPECT_EQ(tree.node(1).parent, 0);
  EXPECT_EQ(tree.node(1).token, 7);
  EXPECT_EQ(nodes_of(tree.trials(kRoot)), (std::vector<int>{0}));
  EXPECT_EQ(nodes_of(tree.trials(0)), (std::vector<int>{1}));
  tree.prune({});
  EXPECT_EQ(tree.size(), 0);
  EXPECT_EQ(tree.length(), 0);
  EXPECT_TRUE(tree.trials(kRoot).empty());
}

// A chain needs no parents, whether it was added token by token, as a tree, or is left of one.
TEST(TokenTreeTest, AChainIsATreeWithOneChildEach) {
  Drafts chain(3, 0), tree(room(3, 3), 0), left = four_drafts();
  for (const TokenId token : {6, 7}) chain.add_certain(token);
  add_trial(tree, add_trial(tree, kRoot, 6, kCertain, 1), 7, kCertain, 1);
  left.prune(std::vector<int>{1, 4});
  for (const Drafts* drafts : {&chain, &tree, &left}) {
    EXPECT_TRUE(drafts->parents().empty());
    EXPECT_EQ(drafts->length(), drafts->size());
    EXPECT_EQ(std::vector<TokenId>(drafts->tokens().begin(), drafts->tokens().end()),
              (std::vector<TokenId>{6, 7}));
    EXPECT_EQ(nodes_of(drafts->trials(0)), (std::vector<int>{1}));
    EXPECT_TRUE(drafts->probs(1).empty());
  }
}

TEST(TokenTreeTest, WhatItHasNoRoomForOrNoOrder) {
  Drafts tree(room(2, 2), 10);
  add_trial(tree, kRoot, 1, kCertain, 1);
  EXPECT_DEATH(tree.add_probs(), "room for 0 distributions");
  add_trial(tree, 0, 2, kCertain, 1);
  EXPECT_DEATH(add_trial(tree, kRoot, 1, kCertain, 1), "at most 2 trials");
  Drafts other(room(4, 4), 10);
  add_trial(other, kRoot, 1, kCertain, 1);
  add_trial(other, 0, 2, kCertain, 1);
  EXPECT_DEATH(add_trial(other, kRoot, 3, kCertain, 1), "level after level");
  Drafts scattered(room(6, 6), 10);
  for (const TokenId token : {1, 2}) add_trial(scattered, kRoot, token, kCertain, 1);
  for (const int parent : {0, 1}) add_trial(scattered, parent, 3, kCertain, 1);
  EXPECT_DEATH(add_trial(scattered, 0, 4, kCertain, 1), "the trials after one node together");
}

std::vector<std::vector<TokenId>> paths_of(const Drafts& tree) {
  std::vector<std::vector<TokenId>> paths;
  for (int leaf = 0; leaf < tree.size(); leaf++) {
    if (!tree.trials(leaf).empty()) continue;
    std::vector<TokenId> path;
    for (int node = leaf; node != kRoot; node = tree.node(node).parent) {
      path.insert(path.begin(), tree.node(node).token);
    }
    paths.push_back(path);
  }
  return paths;
}

TEST(LookupTreeTest, ProposesWhatFollowedTheLastPlaces) {
  const std::vector<TokenId> context = {1, 2, 9, 5, 1, 2, 8, 5, 3, 1, 2, 8, 6, 1, 2};
  LookupTreeDrafter drafter({.continuations = 3, .levels = 2, .min_match = 2});
  Drafts tree(drafter.capacity(8), 10);
  const DraftRequest request{.context = context, .spec_length = 2, .sampling = {}, .drafts = &tree};
  drafter.draft(std::span(&request, 1));
  EXPECT_EQ(paths_of(tree), (std::vector<std::vector<TokenId>>{{8, 6}, {8, 5}, {9, 5}}));
  EXPECT_EQ(tree.size(), 5) << "two of them begin alike";
  EXPECT_EQ(tree.n_trials(), 5) << "a token that is certain is tried once";
}

// A longer match is worth more than a later one.
TEST(LookupTreeTest, TheLongestMatchesOnly) {
  const std::vector<TokenId> context = {3, 1, 2, 9, 5, 1, 2, 8, 3, 1, 2};
  LookupTreeDrafter drafter({.continuations = 3, .levels = 1, .min_match = 2});
  Drafts tree(drafter.capacity(8), 10);
  const DraftRequest request{.context = context, .spec_length = 1, .sampling = {}, .drafts = &tree};
  drafter.draft(std::span(&request, 1));
  EXPECT_EQ(paths_of(tree), (std::vector<std::vector<TokenId>>{{9}}));
}

TEST(LookupTreeTest, NothingWhereNothingHasComeBefore) {
  const std::vector<TokenId> context = {1, 2, 3, 4};
  LookupTreeDrafter drafter({});
  Drafts tree(drafter.capacity(8), 10);
  const DraftRequest request{.context = context, .spec_length = 3, .sampling = {}, .drafts = &tree};
  drafter.draft(std::span(&request, 1));
  EXPECT_EQ(tree.size(), 0);
}

}  // namespace
}  // namespace specdec
