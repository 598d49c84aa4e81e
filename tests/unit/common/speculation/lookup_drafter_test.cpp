// Prompt lookup: the index against brute force, what is proposed, what reading a token costs, and
// the books of sequences.
#include "common/speculation/lookup_drafter.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "tests/test_support.h"
#include "tests/unit/allocation_counter.h"

namespace specdec {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Tokens = std::vector<TokenId>;

Tokens random_text(int length, int alphabet, unsigned seed) {
  std::mt19937 random(seed);
  Tokens text;
  for (int i = 0; i < length; i++) {
    text.push_back(static_cast<TokenId>(random() % unsigned(alphabet)));
  }
  return text;
}

// Letters as tokens.
Tokens spell(std::string_view letters) { return {letters.begin(), letters.end()}; }

// What SuffixAutomaton::match() must say, found by comparing everything with everything.
class BruteForce {
 public:
  SuffixAutomaton::Match append(TokenId token) {
    text_.push_back(token);
    const auto n = static_cast<int>(text_.size());
    int longest = 0, first_end = 0;
    for (int end = 1; end < n; end++) {
      int length = 0;
      while (length < end && text_[at(end - 1 - length)] == text_[at(n - 1 - length)]) length++;
      if (length > longest) {
        longest = length;
        first_end = end;
      }
    }
    const Tokens matched(text_.end() - longest, text_.end());
    const auto last = last_match_.find(matched);
    const int end = last == last_match_.end() ? first_end : last->second;
    last_match_[matched] = n;
    return {longest, longest == 0 ? 0 : end};
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  Tokens text_;
  std::map<Tokens, int> last_match_;
};

void expect_brute_force(const Tokens& text) {
  SuffixAutomaton index(static_cast<int>(text.size()));
  BruteForce brute_force;
  for (std::size_t i = 0; i < text.size(); i++) {
    index.append(text[i]);
    const auto want = brute_force.append(text[i]), got = index.match();
    ASSERT_EQ(got.length, want.length) << "after " << i + 1 << " tokens";
    if (want.length > 0) {
      ASSERT_EQ(got.end, want.end) << "after " << i + 1 << " tokens";
    }
  }
}

// ---- the index ----

TEST(SuffixAutomatonTest, EqualsBruteForceOnRandomTexts) {
  for (unsigned seed = 0; seed < 300; seed++) {
    const int alphabet = 1 + static_cast<int>(seed % 5);
    SCOPED_TRACE(seed);
    expect_brute_force(random_text(20 + static_cast<int>(seed % 7) * 20, alphabet, seed));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(SuffixAutomatonTest, EqualsBruteForceOnEveryShortText) {
  for (int code = 0; code < 3 * 3 * 3 * 3 * 3 * 3 * 3 * 3; code++) {
    Tokens text;
    for (int i = 0, rest = code; i < 8; i++, rest /= 3) text.push_back(rest % 3);
    expect_brute_force(text);
    if (testing::Test::HasFatalFailure()) FAIL() << testing::PrintToString(text);
  }
}

TEST(SuffixAutomatonTest, EqualsBruteForceOnTextsThatRepeat) {
  for (unsigned seed = 0; seed < 60; seed++) {  // pieces of itself, copied with few changes
    std::mt19937 random(seed);
    Tokens text = random_text(10, 3, seed);
    while (text.size() < 150) {
      const std::size_t from = random() % text.size();
      const std::size_t count = 1 + random() % std::min<std::size_t>(20, text.size() - from);
      for (std::size_t i = 0; i < count; i++) text.push_back(text[from + i]);
      text.push_back(static_cast<TokenId>(random() % 3));
    }
    expect_brute_force(text);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(SuffixAutomatonTest, OfSeveralOccurrencesTheLastWithTheSameMatch) {
  SuffixAutomaton index(40);
  const auto match_after = [&](std::string_view more) {
    for (const TokenId token : spell(more)) index.append(token);
    return std::pair(index.match().length, index.match().end);
  };
  EXPECT_EQ(match_after("xab1").first, 0);
  EXPECT_EQ(match_after("yab"), std::pair(2, 3)) << "the first";
  EXPECT_EQ(match_after("2zab"), std::pair(2, 7)) << "the second, matched as ab then";
  EXPECT_EQ(match_after("3xab"), std::pair(3, 3)) << "longer beats later";
  EXPECT_EQ(match_after("4wab"), std::pair(2, 11)) << "xab was another match";
}

TEST(SuffixAutomatonTest, ClearForgets) {
  SuffixAutomaton index(50);
  for (const TokenId token : random_text(50, 2, 1)) index.append(token);
  index.clear();
  EXPECT_EQ(index.match().length, 0);
  EXPECT_THAT(index.text(), IsEmpty());
  index.append(0);
  EXPECT_EQ(index.match().length, 0) << "the first token has not come before";
}

// ---- what it costs ----

Tokens fibonacci_word(std::size_t length) {
  Tokens shorter = {1}, word = {0};
  while (word.size() < length) {
    Tokens longer = word;
    longer.insert(longer.end(), shorter.begin(), shorter.end());
    shorter = std::exchange(word, std::move(longer));
  }
  word.resize(length);
  return word;
}

// Texts that make the automaton large or its loops long.
std::map<std::string, Tokens> hard_texts(int n) {
  const auto size = static_cast<std::size_t>(n);
  std::map<std::string, Tokens> texts;
  texts["one token"] = Tokens(size, 7);
  texts["Fibonacci word"] = fibonacci_word(size);
  texts["abbb: 2 n states"] = Tokens(size, 1);
  texts["abbb: 2 n states"][0] = 0;
  texts["abbb...c: 3 n edges"] = texts["abbb: 2 n states"];
  texts["abbb...c: 3 n edges"].back() = 2;
  texts["a^k b a^k b"] = Tokens(size, 0);
  for (std::size_t i = 99; i < size; i += 100) texts["a^k b a^k b"][i] = 1;
  Tokens& growing = texts["ab aab aaab"];
  for (std::size_t k = 1; growing.size() < size; k++) {
    growing.insert(growing.end(), k, 0);
    growing.push_back(1);
  }
  growing.resize(size);
  Tokens& blocks = texts["a^k b^k"];
  blocks = Tokens(size, 0);
  std::fill(blocks.begin() + n / 2, blocks.end(), 1);
  Tokens& hub = texts["one token before every other"];  // its state has n edges, copied by splits
  for (int i = 0; i < n / 2; i++) hub.insert(hub.end(), {0, 1 + i});
  for (const int alphabet : {2, 30, 100'000}) {
    texts["random of " + std::to_string(alphabet)] = random_text(n, alphabet, 1);
  }
  return texts;
}

TEST(SuffixAutomatonTest, CostOfATokenDoesNotDependOnTheLength) {
  constexpr int kMost = 12;  // steps a token; the worst text here takes 11
  for (const int n : {1'000, 10'000, 100'000}) {
    for (const auto& [name, text] : hard_texts(n)) {
      SuffixAutomaton index(static_cast<int>(text.size()));
      for (const TokenId token : text) index.append(token);
      EXPECT_LE(index.steps(), kMost * n) << name << ", " << n;
    }
  }
}

TEST(LookupDrafterTest, RoundsCostWhatTheirTokensCost) {
  // A context that grows by a token or two a round, as speculation makes it.
  for (const auto& [name, text] : hard_texts(30'000)) {
    const auto n = text.size();
    LookupDrafter drafter(static_cast<int>(n));
    const SequenceId sequence = drafter.create();
    Drafts drafts(5, 0);
    for (std::size_t length = n / 2; length <= n; length += 1 + length % 2) {
      const DraftRequest request{sequence, std::span(text).first(length), 5, {}, &drafts};
      drafter.draft(std::span(&request, 1));
      const int start = static_cast<int>(length) - 1;
      drafter.truncate(sequence, start + std::min(drafts.size(), 1));
    }
    EXPECT_LE(drafter.index_steps(), 12 * static_cast<std::int64_t>(n)) << name;
  }
}

// ---- the drafter ----

class Lookup {
 public:
  explicit Lookup(int min_match = LookupDrafter::kMinMatch, int n_sequences = 1)
      : drafter(200, n_sequences, min_match) {
    for (int i = 0; i < n_sequences; i++) sequences.push_back(drafter.create());
  }
  Tokens operator()(const Tokens& context, int spec_length, int sequence = 0) {
    const DraftRequest request{
        sequences[static_cast<std::size_t>(sequence)], context, spec_length, {}, &drafts};
    drafter.draft(std::span(&request, 1));
    for (int i = 0; i < drafts.size(); i++) EXPECT_THAT(drafts.probs(i), IsEmpty()) << "certain";
    return {drafts.tokens().begin(), drafts.tokens().end()};
  }

  LookupDrafter drafter;
  std::vector<SequenceId> sequences;
  Drafts drafts{8, 0};
};

TEST(LookupDrafterTest, CopiesWhatFollowed) {
  EXPECT_EQ(Lookup()(spell("the cat sat. the c"), 5), spell("at sa"));
  EXPECT_THAT(Lookup()(spell("the cat sat. the c"), 0), IsEmpty());
}

TEST(LookupDrafterTest, GoesOnPeriodically) {
  EXPECT_EQ(Lookup()(spell("xabcabc"), 8), spell("abcabcab"));
  EXPECT_EQ(Lookup()(spell("aaa"), 4), spell("aaaa"));
  EXPECT_EQ(Lookup()(spell("abab!ab"), 7), spell("!ab!ab!")) << "a longer period";
}

TEST(LookupDrafterTest, ShortMatchesGiveNothing) {
  EXPECT_THAT(Lookup(2)(spell("abcdea"), 4), IsEmpty());
  EXPECT_EQ(Lookup(1)(spell("abcdea"), 4), spell("bcde"));
  EXPECT_THAT(Lookup(3)(spell("abcdeab"), 4), IsEmpty());
  EXPECT_EQ(Lookup(2)(spell("abcdeab"), 4), spell("cdea"));
  EXPECT_THAT(Lookup(1)(spell("abc"), 4), IsEmpty()) << "c is new";
  EXPECT_THAT(Lookup(1)(spell("a"), 4), IsEmpty());
  EXPECT_THAT(Lookup(1)({}, 4), IsEmpty());
}

// Proposals from the whole context, without an index.
Tokens plain_lookup(const Tokens& context, int spec_length, int min_match) {
  BruteForce brute_force;
  SuffixAutomaton::Match match;
  for (const TokenId token : context) match = brute_force.append(token);
  if (match.length < min_match) return {};
  Tokens text = context;
  for (int i = 0; i < spec_length; i++) {
    text.push_back(text[static_cast<std::size_t>(match.end + i)]);
  }
  return {text.end() - spec_length, text.end()};
}

TEST(LookupDrafterTest, IncrementalEqualsFromScratch) {
  for (unsigned seed = 0; seed < 40; seed++) {
    std::mt19937 random(seed);
    const Tokens text = random_text(100, 2 + static_cast<int>(seed % 4), seed);
    const int min_match = 1 + static_cast<int>(seed % 3);
    Lookup growing(min_match);
    for (std::size_t length = 1; length <= text.size(); length += 1 + random() % 6) {
      const Tokens context(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length));
      const int spec_length = static_cast<int>(random() % 8);
      const Tokens got = growing(context, spec_length);
      EXPECT_EQ(got, plain_lookup(context, spec_length, min_match)) << seed << ", " << length;
      EXPECT_EQ(got, Lookup(min_match)(context, spec_length)) << seed << ", " << length;
      EXPECT_EQ(growing.drafter.length(growing.sequences[0]), static_cast<int>(length));
    }
  }
}

TEST(LookupDrafterTest, TruncationAtRandom) {
  for (unsigned seed = 0; seed < 60; seed++) {
    std::mt19937 random(seed);
    Lookup lookup(1);
    Tokens context = random_text(5, 2, seed);
    for (int round = 0; round < 40; round++) {
      ASSERT_EQ(lookup(context, 6), plain_lookup(context, 6, 1)) << seed << ", " << round;
      const auto kept = random() % (context.size() + 3);  // sometimes more than there is
      lookup.drafter.truncate(lookup.sequences[0], static_cast<int>(kept));
      EXPECT_EQ(lookup.drafter.length(lookup.sequences[0]),
                static_cast<int>(std::min(kept, context.size())));
      // What was taken back comes again, or something else comes, or less.
      Tokens again = context;
      if (kept < context.size() && random() % 2 == 0) again.resize(kept);
      if (kept < again.size() && random() % 3 == 0) again.back() ^= 1;
      for (auto more = random() % 3; more > 0 || again.empty(); more -= more > 0) {
        again.push_back(static_cast<TokenId>(random() % 2));
      }
      context = again;
    }
  }
}

TEST(LookupDrafterTest, BatchesAreSingleRequestsSideBySide) {
  const Tokens texts[] = {random_text(60, 2, 1), random_text(60, 3, 2), random_text(60, 1, 3)};
  Lookup batched(1, 3);
  for (std::size_t length = 20; length <= 60; length += 4) {
    std::vector<Drafts> drafts = make_drafts(3, Capacity::of_chain(6), 0);
    std::vector<DraftRequest> requests;
    for (const std::size_t r : {2u, 0u, 1u}) {
      requests.push_back({batched.sequences[r],
                          std::span(texts[r]).first(length),
                          4 + static_cast<int>(r % 2),
                          {},
                          &drafts[r]});
    }
    batched.drafter.draft(requests);
    for (std::size_t r = 0; r < 3; r++) {
      const Tokens context(texts[r].begin(),
                           texts[r].begin() + static_cast<std::ptrdiff_t>(length));
      EXPECT_EQ(Tokens(drafts[r].tokens().begin(), drafts[r].tokens().end()),
                plain_lookup(context, 4 + static_cast<int>(r % 2), 1));
    }
  }
}

TEST(LookupDrafterTest, SequencesAreUsedAgainAndEmpty) {
  Lookup lookup(1, 2);
  EXPECT_ERROR(lookup.drafter.create(), "room for 2 sequences");
  EXPECT_THROW(lookup.drafter.create(), CacheFull);
  EXPECT_EQ(lookup(spell("abca"), 2, 1), spell("bc"));
  lookup.drafter.release(lookup.sequences[1]);
  EXPECT_EQ(lookup.drafter.create(), lookup.sequences[1]);
  EXPECT_EQ(lookup.drafter.length(lookup.sequences[1]), 0);
  EXPECT_THAT(lookup(spell("a"), 2, 1), IsEmpty());
}

TEST(LookupDrafterTest, DraftAllocatesNothing) {
  for (const auto& [name, text] : hard_texts(2'000)) {
    LookupDrafter drafter(static_cast<int>(text.size()), 2, 1);
    const SequenceId sequence = drafter.create();
    Drafts drafts(5, 0);
    const std::size_t before = allocations();
    for (int run = 0; run < 2; run++) {
      for (std::size_t length = 1; length <= text.size(); length++) {
        const DraftRequest request{sequence, std::span(text).first(length), 5, {}, &drafts};
        drafter.draft(std::span(&request, 1));
        drafter.truncate(sequence, static_cast<int>(length));
      }
      drafter.truncate(sequence, 0);
    }
    EXPECT_EQ(allocations() - before, 0u) << name;
  }
}

TEST(LookupDrafterDeathTest, BrokenPreconditions) {
  EXPECT_DEATH(LookupDrafter(10, 1, 0), "matches of at least one token");
  EXPECT_DEATH(LookupDrafter(0), "a text of at least one token");
  Lookup lookup;
  lookup(spell("abcdef"), 2);
  EXPECT_DEATH(lookup(spell("abc"), 2), "go on after 6 tokens, not 3");
  EXPECT_DEATH(lookup(Tokens(201, 1), 2), "room for 200 tokens");
  EXPECT_DEATH(lookup.drafter.truncate(lookup.sequences[0], -1), "0 or more tokens, not -1");
  lookup.drafter.release(lookup.sequences[0]);
  EXPECT_DEATH(lookup(spell("abc"), 2), "sequence 0 to exist");
}

}  // namespace
}  // namespace specdec
