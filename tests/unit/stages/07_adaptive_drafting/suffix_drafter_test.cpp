// The suffix drafter of stage 7, held to counting by hand; and that other requests' texts change a
// request's drafts, but never its text, under rules that do not depend on drafts.
#include "stages/07_adaptive_drafting/suffix_drafter.h"

#include <map>
#include <random>
#include <set>

#include "tests/unit/stages/06_batched_verification/batch_engine_fixture.h"
#include "tests/unit/stages/07_adaptive_drafting/named_drafters.h"

namespace specdec::law {
namespace {

using Text = std::vector<TokenId>;

// ---- the trie

constexpr int kDepth = 4;

std::map<Text, int> strings_in(const std::vector<Text>& texts, int depth = kDepth) {
  std::map<Text, int> counts;
  for (const Text& text : texts) {
    for (auto from = text.begin(); from != text.end(); ++from) {
      const auto most = std::min<std::ptrdiff_t>(depth, text.end() - from);
      for (std::ptrdiff_t n = 1; n <= most; n++) counts[Text(from, from + n)]++;
    }
  }
  return counts;
}

// {follower: count} after the longest end of the context that was followed, and that end's length.
std::pair<int, std::map<TokenId, int>> followers_in(const std::map<Text, int>& counts,
                                                    const Text& context, int depth = kDepth) {
  for (int length = std::min(int_size(context), depth - 1); length > 0; length--) {
    std::map<TokenId, int> followers;
    for (const auto& [string, count] : counts) {
      if (int_size(string) != length + 1) continue;
      if (std::equal(string.begin(), string.end() - 1, context.end() - length)) {
        followers[string.back()] = count;
      }
    }
    if (!followers.empty()) return {length, followers};
  }
  return {};
}

std::map<TokenId, int> followers_of(const SuffixTrie& trie, int node) {
  std::map<TokenId, int> followers;
  for (int i = trie.first_follower(node); i != SuffixTrie::kNone; i = trie.next_follower(i)) {
    EXPECT_TRUE(followers.emplace(trie.token(i), trie.count(i)).second);
  }
  return followers;
}

// Texts that are added, grow, shrink and are forgotten at random.
TEST(SuffixTrieTest, CountsEveryString) {
  std::mt19937 random(1);
  SuffixTrie trie(kDepth);
  std::vector<Text> texts(3);
  for (int step = 0; step < 3000; step++) {
    Text& text = texts[random() % texts.size()];
    if (random() % 50 == 0) {
      trie.remove(text);
      text.clear();
    } else if (random() % 3 == 0 && !text.empty()) {
      trie.remove_end(text);
      text.pop_back();
    } else {
      text.push_back(static_cast<TokenId>(random() % 3));
      trie.add_end(text);
    }
    if (step % 10 != 0) continue;
    const std::map<Text, int> counts = strings_in(texts);
    ASSERT_EQ(trie.n_nodes(), std::ssize(counts) + 1) << "step " << step;
    const auto [length, followers] = followers_in(counts, text);
    const SuffixTrie::Match match = trie.longest_match(text);
    ASSERT_EQ(match.length, length) << "step " << step;
    if (length > 0) {
      ASSERT_EQ(followers_of(trie, match.node), followers) << "step " << step;
    }
  }
}

// ---- the drafter

constexpr SuffixDrafter::Options kChain{.depth = kDepth};

Drafts drafted(SuffixDrafter& drafter, SequenceId sequence, const Text& context, int K) {
  Drafts drafts(drafter.capacity(K), 0);
  const DraftRequest request{sequence, context, K, {}, &drafts};
  drafter.draft(std::span(&request, 1));
  return drafts;
}

Text fresh(const Text& context, int K, const SuffixDrafter::Options& options = kChain) {
  SuffixDrafter drafter(options);
  return tokens_of(drafted(drafter, drafter.create(), context, K));
}

TEST(SuffixDrafterTest, TheLongestMatchCountsMostThenTheFrequentThenTheLatest) {
  EXPECT_EQ(fresh({1, 2, 3, 5, 2, 4, 6, 2, 4, 1, 2}, 1), Text{3});
  EXPECT_EQ(fresh({7, 1, 7, 2, 7, 1, 7, 3, 7}, 1), Text{1});
  EXPECT_EQ(fresh({7, 1, 7, 2, 7}, 1), Text{2});
  EXPECT_EQ(fresh({1, 2, 3}, 4), Text{});
}

TEST(SuffixDrafterTest, DraftsAsMuchAsTheMatchDeserves) {
  EXPECT_EQ(fresh({1, 2, 3, 1, 2, 3, 1, 2, 3, 4, 5, 1}, 9), (Text{2, 3}));
  EXPECT_EQ(fresh({1, 2, 3, 1, 2, 3, 1, 2, 3, 4, 5, 1, 2}, 9), (Text{3, 1, 2, 3}));
  EXPECT_EQ(fresh({1, 2, 3, 1, 2, 3, 1, 2, 3, 4, 5, 1, 2}, 3), (Text{3, 1, 2})) << "at most K";
  const SuffixDrafter::Options longer{.depth = kDepth, .min_match = 2};
  EXPECT_EQ(fresh({1, 2, 1}, 9, longer), Text{});
}

// The likeliest paths by hand: all candidates of a list are compared for each node.
Text grown_by_hand(const Text& context, int nodes, int K) {
  const std::map<Text, int> counts = strings_in({context});
  struct Candidate {
    double prob;
    Text path;
  };
  std::vector<Candidate> candidates, grown;
  const auto add = [&](const Candidate& to) {
    Text end = context;
    end.insert(end.end(), to.path.begin(), to.path.end());
    const auto [length, followers] = followers_in(counts, end);
    int all = 1;
    for (const auto& [token, count] : followers) all += count;
    for (const auto& [token, count] : followers) {
      candidates.push_back({to.prob * (static_cast<double>(count) / all), to.path});
      candidates.back().path.push_back(token);
    }
    return length;
  };
  const int levels = std::min(K, 2 * add({1, {}}));
  while (!candidates.empty() && int_size(grown) < nodes) {
    const auto best = std::ranges::max_element(candidates, {}, &Candidate::prob);
    grown.push_back(*best);
    candidates.erase(best);
    if (int_size(grown.back().path) < levels) add(Candidate(grown.back()));
  }
  std::multiset<double> probs;  // equal ones may be taken in any order
  for (const Candidate& one : grown) probs.insert(one.prob);
  Text result;
  for (const double prob : probs) result.push_back(static_cast<TokenId>(prob * 1e6));
  return result;
}

TEST(SuffixDrafterTest, ATreeGrowsWhereItIsLikeliest) {
  std::mt19937 random(2);
  int branching = 0;
  for (int i = 0; i < 300; i++) {
    Text context;
    for (int n = 0; n < 40; n++) context.push_back(static_cast<TokenId>(random() % 4));
    SuffixDrafter drafter({.depth = kDepth, .nodes = 7});
    const Drafts tree = drafted(drafter, drafter.create(), context, 4);
    std::multiset<double> probs;
    for (int node = 0; node < tree.size(); node++) probs.insert(tree.node(node).draft_prob);
    Text got;
    for (const double prob : probs) got.push_back(static_cast<TokenId>(prob * 1e6));
    EXPECT_EQ(got, grown_by_hand(context, 7, 4)) << "text " << i;
    branching += !tree.parents().empty();
  }
  EXPECT_GT(branching, 200);
}

// So neither its own drafts nor tokens that were taken back are remembered.
TEST(SuffixDrafterTest, RemembersTheTextAlone) {
  std::mt19937 random(3);
  SuffixDrafter drafter(kChain);
  const SequenceId sequence = drafter.create();
  Text text = {0};
  for (int step = 0; step < 1000; step++) {
    if (random() % 3 == 0 && text.size() > 1) {
      text.resize(1 + random() % text.size());
      drafter.truncate(sequence, static_cast<int>(text.size()) - 1);
    }
    for (auto n = 1 + random() % 4; n > 0; n--) text.push_back(static_cast<TokenId>(random() % 2));
    const Drafts got = drafted(drafter, sequence, text, 4);
    SuffixDrafter other(kChain);
    const Drafts want = drafted(other, other.create(), text, 4);
    EXPECT_EQ(got.size(), want.size()) << "step " << step;
    EXPECT_EQ(drafter.length(sequence), std::ssize(text));
  }
}

TEST(SuffixMemoryTest, ForgetsTheOldest) {
  SuffixMemory memory(kDepth, 10);
  const std::vector<Text> texts = {{1, 2, 3, 4}, {5, 6, 7, 8}, {1, 5, 2, 6}, {9}};
  for (const Text& text : texts) memory.add(text);
  EXPECT_EQ(memory.tokens(), 9);
  EXPECT_EQ(memory.trie().n_nodes(), std::ssize(strings_in({texts.begin() + 1, texts.end()})) + 1);
  memory.add(Text{9, 8, 7});
  EXPECT_EQ(memory.tokens(), 7) << "a text that goes on takes the place of its beginning";
  memory.add(Text(40, 3));
  EXPECT_EQ(memory.tokens(), 10);
  EXPECT_EQ(memory.trie().n_nodes(), kDepth + 1) << "only the end of a long text is kept";
}

TEST(SuffixMemoryTest, WithoutRoomThereIsNothing) {
  SuffixMemory memory(kDepth, 0);
  memory.add(Text{1, 2, 3});
  EXPECT_EQ(memory.trie().n_nodes(), 1);
}

TEST(SuffixDrafterTest, DraftsFromEarlierTextsAndThoseThatEnded) {
  SuffixDrafter drafter({.depth = kDepth, .memory = 100}, Text{1, 2, 3, 4});
  const SequenceId first = drafter.create();
  EXPECT_EQ(tokens_of(drafted(drafter, first, {8, 1, 2}, 2)), (Text{3, 4}));
  EXPECT_EQ(tokens_of(drafted(drafter, first, {8, 1, 2, 5, 6, 7}, 2)), Text{});
  const SequenceId second = drafter.create();
  EXPECT_EQ(tokens_of(drafted(drafter, second, {5, 6}, 1)), Text{}) << "the first has not ended";
  drafter.release(first);
  EXPECT_EQ(tokens_of(drafted(drafter, second, {5, 6}, 1)), Text{7});
  EXPECT_EQ(tokens_of(drafted(drafter, second, {5, 6, 9, 5, 6}, 1)), Text{9})
      << "its own text wins among equals";
}

// ---- neighbours

// The texts of requests that come one after another, with or without a memory of those before.
std::vector<Text> served(const AcceptanceRule rule, int memory, std::uint64_t seed) {
  const auto backend = make_plain_backend();
  const auto cache = make_token_cache(*backend, {64, 3});
  PagedTableModel target(*cache, Tables::kVocab, Tables::get().target->row_of(), 60);
  SuffixDrafter drafter({.memory = memory});
  BatchEngine engine({.target = target, .target_cache = *cache, .drafter = drafter},
                     {.max_batch = 1, .spec_length = 4, .check_invariants = true});
  const auto named = std::ranges::find(acceptance_rules(), rule, &NamedRule::rule);
  std::vector<RequestId> ids;
  for (int i = 0; i < 6; i++) {
    BatchRequest request = mixed_requests()[0];
    request.spec_length = 4;
    request.make_policy = {};
    request.speculation.rule = &*named;
    request.speculation.sampling.temperature = 1;
    request.seed = seed + static_cast<std::uint64_t>(i);
    ids.push_back(engine.add_request(request));
  }
  for (int step = 0; !engine.idle() && step < 2000; step++) engine.step();
  std::vector<Text> texts;
  for (const RequestId id : ids) texts.push_back(engine.take_result(id).tokens);
  return texts;
}

TEST(SuffixMemoryTest, NeighboursChangeTextsUnderRulesThatDependOnDraftsOnly) {
  int changed = 0;
  for (std::uint64_t seed = 0; seed < 20; seed++) {
    EXPECT_EQ(served(sample_and_match, 500, seed), served(sample_and_match, 0, seed));
    EXPECT_EQ(served(coupled, 500, seed), served(coupled, 0, seed));
    changed += served(rejection, 500, seed) != served(rejection, 0, seed);
  }
  EXPECT_GT(changed, 10) << "why such a memory is refused with other rules";
}

}  // namespace
}  // namespace specdec::law
