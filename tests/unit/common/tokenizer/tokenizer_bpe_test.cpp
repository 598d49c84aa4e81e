#include <ctime>
#include <map>
#include <string>

#include "common/tokenizer/bpe.h"
#include "common/tokenizer/byte_alphabet.h"
#include "tests/test_support.h"
#include "tests/unit/common/tokenizer/tokenizer_random_text.h"

namespace specdec {
namespace {

using Ids = std::vector<TokenId>;

// A vocabulary of the 256 bytes and whatever the merges make, in an order that has nothing to do
// with the merges' ranks.
struct Fixture {
  explicit Fixture(const std::vector<std::pair<std::string, std::string>>& merges) {
    std::map<std::string, TokenId> ids;
    for (const auto& [left, right] : merges) {
      for (const std::string& text : {right, left, left + right}) {
        if (text.size() > 1) ids.emplace(text, 0);
      }
      parts.add(left);
      parts.add(right);
    }
    TokenId next = 0;
    for (auto& [text, id] : ids) vocabulary.add_model_token(text, id = next++);
    for (int byte = 255; byte >= 0; --byte) {
      const std::string letter(alphabet_character(static_cast<unsigned char>(byte)));
      ids.emplace(letter, next);
      vocabulary.add_model_token(letter, next++);
    }
    vocabulary.finish();
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      const auto& [left, right] = merges[rank];
      rules[{ids.at(left), ids.at(right)}] = {rank, ids.at(left + right)};
    }
  }

  Ids encode(std::string_view word, bool ignore_merges = false) const {
    const BpeModel model(vocabulary, parts, {.ignore_merges = ignore_merges});
    BpeModel::Workspace work;
    Ids out;
    model.encode(word, vocabulary, work, out);
    return out;
  }

  // The definition: look for the merge of lowest rank, leftmost first, until there is none.
  Ids encode_by_definition(std::string_view word) const {
    Ids ids;
    for (const char c : word) ids.push_back(*vocabulary.find_model_bytes(std::string_view(&c, 1)));
    while (true) {
      std::size_t best = ids.size();
      std::pair<std::size_t, TokenId> best_rule;
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto rule = rules.find({ids[i], ids[i + 1]});
        if (rule == rules.end() || (best < ids.size() && rule->second.first >= best_rule.first)) {
          continue;
        }
        best = i;
        best_rule = rule->second;
      }
      if (best == ids.size()) return ids;
      ids[best] = best_rule.second;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
  }

  Vocabulary vocabulary;
  StringList parts;
  std::map<std::pair<TokenId, TokenId>, std::pair<std::size_t, TokenId>> rules;
};

std::string random_word(RandomText& random, unsigned longest) {
  std::string word;
  for (unsigned n = 1 + random.below(longest); n > 0; --n) {
    word.push_back(static_cast<char>('a' + random.below(3)));
  }
  return word;
}

// Tokens of up to 8 of the letters a, b, c, each split at random, some in several ways.
std::vector<std::pair<std::string, std::string>> random_merges(RandomText& random) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (unsigned n = 1 + random.below(30); n > 0; --n) {
    const std::string token = random_word(random, 7) + "abc"[random.below(3)];
    const std::size_t cut = 1 + random.below(static_cast<unsigned>(token.size()) - 1);
    merges.emplace_back(token.substr(0, cut), token.substr(cut));
  }
  return merges;
}

TEST(TokenizerBpeTest, EqualsTheDefinitionOnRandomVocabularies) {
  RandomText random(2);
  std::size_t merged = 0;
  for (int table = 0; table < 400; ++table) {
    const Fixture fixture(random_merges(random));
    const BpeModel model(fixture.vocabulary, fixture.parts, {});
    BpeModel::Workspace work;
    for (int i = 0; i < 50; ++i) {
      const std::string word = random_word(random, 20);
      Ids ids;
      model.encode(word, fixture.vocabulary, work, ids);
      ASSERT_EQ(ids, fixture.encode_by_definition(word)) << word;
      merged += word.size() - ids.size();
    }
  }
  EXPECT_GT(merged, 20000u) << "otherwise the words try nothing";
}

TEST(TokenizerBpeTest, TheRankDecidesNotTheId) {
  // Fixture numbers the tokens alphabetically: "ab" has a lower id than "bc", but a higher rank.
  const Fixture fixture({{"b", "c"}, {"a", "b"}});
  ASSERT_LT(*fixture.vocabulary.find_model_bytes("ab"), *fixture.vocabulary.find_model_bytes("bc"));
  EXPECT_EQ(fixture.encode("abc"), (Ids{*fixture.vocabulary.find_model_bytes("a"),
                                        *fixture.vocabulary.find_model_bytes("bc")}));
}

TEST(TokenizerBpeTest, TheLastOfEqualMergesCounts) {
  const Fixture twice({{"a", "b"}, {"b", "c"}, {"a", "b"}});
  EXPECT_EQ(twice.vocabulary.bytes(twice.encode("abc")[0]), "a");
}

TEST(TokenizerBpeTest, IgnoreMergesTakesAWholeWord) {
  // "abc" is a token, but no merge leads to it: its halves "ab" and "c" are never merged.
  const Fixture fixture({{"a", "b"}, {"ab", "cc"}, {"b", "c"}});
  const TokenId whole = *fixture.vocabulary.find_model_bytes("abcc");
  EXPECT_EQ(fixture.encode("abcc", true), Ids{whole});
  EXPECT_EQ(fixture.encode("abcc", false).size(), 3u) << "no merge makes \"cc\"";
  EXPECT_EQ(fixture.encode("abccc", true).size(), 4u) << "only a whole word is looked up";
}

TEST(TokenizerBpeTest, ALongWordTakesNoQuadraticTime) {
  const Fixture fixture({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}, {"a", "b"}});
  const std::clock_t start = std::clock();  // of processor time: the machine may be busy
  const Ids ids = fixture.encode(std::string(1 << 20, 'a'));
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_EQ(ids.size(), (1u << 20) / 8);
  // About 0.2 s; a quadratic search would take hours.
  EXPECT_LT(seconds, 30.0);
}

}  // namespace
}  // namespace specdec
