#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>

#include "kernels/cpu/cpu_backend.h"
#include "stages/06_batched_verification/prefix_cache.h"
#include "tests/paged_table_model.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

using Tokens = std::vector<TokenId>;

constexpr int kPages = 12;

std::uint64_t always_seven(std::uint64_t, std::span<const TokenId>) { return 7; }
std::uint64_t one_of_three(std::uint64_t before, std::span<const TokenId> tokens) {
  return fnv_prefix_hash(before, tokens) % 3;
}

// A prefix cache as one would write it down: each cached page under all tokens up to its end.
class PrefixModel {
 public:
  struct Page {
    std::int32_t number = 0;
    int last_use = 0;
  };
  using Users = std::function<int(std::int32_t page)>;  // sequences that have the page

  explicit PrefixModel(int page_size) : page_size_(page_size) {}

  // The pages that create() must find.
  std::vector<std::int32_t> find(const Tokens& tokens) const {
    std::vector<std::int32_t> found;
    for (int end = page_size_; end < std::ssize(tokens); end += page_size_) {
      const auto page = pages_.find(Tokens(tokens.begin(), tokens.begin() + end));
      if (page == pages_.end()) break;
      found.push_back(page->second.number);
    }
    return found;
  }

  void create(const Tokens& tokens) {
    const int found = static_cast<int>(find(tokens).size());
    now_++;
    for (int i = 1; i <= found; i++) {
      pages_.at(Tokens(tokens.begin(), tokens.begin() + i * page_size_)).last_use = now_;
    }
    stats.lookups++;
    stats.hits += found > 0 ? 1 : 0;
    stats.tokens_asked += std::ssize(tokens);
    stats.tokens_found += found * page_size_;
  }

  void add(const Tokens& prompt, std::span<const std::int32_t> own, int length) {
    now_++;
    const int computed = std::min(static_cast<int>(prompt.size()) - 1, length);
    for (int end = page_size_; end <= computed; end += page_size_) {
      const auto i = static_cast<std::size_t>(end / page_size_ - 1);
      const Tokens text(prompt.begin(), prompt.begin() + end);
      if (!pages_.contains(text)) {
        pages_[text].number = own[i];
        stats.pages_added++;
      }
      pages_[text].last_use = now_;
      if (pages_[text].number != own[i]) break;  // the sequence has a copy
    }
  }

  // A page can go when no sequence has it and no cached prompt is longer.
  bool evict(const Users& users) {
    auto oldest = pages_.end();
    for (auto page = pages_.begin(); page != pages_.end(); ++page) {
      if (users(page->second.number) > 0 || is_continued(page)) continue;
      if (oldest == pages_.end() || page->second.last_use < oldest->second.last_use) oldest = page;
    }
    if (oldest == pages_.end()) return false;
    pages_.erase(oldest);
    stats.pages_evicted++;
    return true;
  }

  void clear() { pages_.clear(); }
  const std::map<Tokens, Page>& pages() const { return pages_; }

  PrefixCacheStats stats;

 private:
  // In the order of the map, what begins with a text comes right after it.
  bool is_continued(std::map<Tokens, Page>::const_iterator page) const {
    const auto next = std::next(page);
    return next != pages_.end() && next->first.size() > page->first.size() &&
           std::equal(page->first.begin(), page->first.end(), next->first.begin());
  }

  int page_size_;
  int now_ = 0;
  std::map<Tokens, Page> pages_;
};

// Requests over one pool, in random order: created, prefilled in chunks, decoded, rolled back,
// taken in, released; their pages evicted. After every call, everything is compared with the model.
class PrefixCacheDriver {
 public:
  PrefixCacheDriver(int page_size, PrefixHash hash)
      : page_size_(page_size),
        cache_(*backend_, {.n_layers = 1, .n_kv_heads = 1, .head_dim = 1}, kPages, page_size),
        language_model_(cache_, 4,
                        [](std::span<const TokenId>) { return std::span<const float>(); }),
        prefixes_(std::in_place, cache_, true, hash),
        model_(page_size) {}

  void step() {
    const unsigned choice = below(100);
    if (requests_.empty() || (choice < 15 && requests_.size() < 6)) {
      create();
    } else if (choice < 45) {
      compute(any());
    } else if (choice < 65) {
      const auto& [id, request] = any();
      prefixes_->add(id, request.prompt);
      model_.add(request.prompt, cache_.pages(id), cache_.length(id));
    } else if (choice < 75) {
      roll_back(any());
    } else if (choice < 85) {
      cache_.release(any_id_erased());
    } else if (choice < 99) {
      evict();
    } else if (below(10) == 0) {
      prefixes_->clear();
      model_.clear();
    }
    check();
  }

  void finish() {
    while (!requests_.empty()) cache_.release(any_id_erased());
    prefixes_.reset();
    EXPECT_EQ(cache_.allocator().n_free(), kPages) << "every page came back";
    EXPECT_EQ(cache_.bytes_copied(), 0u) << "nobody wrote into a shared page";
    EXPECT_GT(model_.stats.hits, 300);
    EXPECT_LT(model_.stats.hits, model_.stats.lookups);
    EXPECT_GT(model_.stats.pages_evicted, 300);
    EXPECT_GT(full_, 100) << "the pool was full at times";
    EXPECT_GT(refused_, 50) << "and nothing could be evicted at times";
  }

 private:
  struct Request {
    Tokens prompt;
    Tokens text;  // the prompt, and what follows it
  };
  using Requests = std::map<SequenceId, Request>;

  unsigned below(std::size_t bound) { return static_cast<unsigned>(random_() % bound); }
  Requests::value_type& any() { return *std::next(requests_.begin(), below(requests_.size())); }
  SequenceId any_id_erased() {
    const SequenceId id = any().first;
    requests_.erase(id);
    return id;
  }

  // Pages of equal tokens but for a few, so that prompts often begin alike.
  Tokens random_prompt() {
    Tokens prompt;
    for (unsigned pages = below(5); pages > 0; pages--) {
      prompt.insert(prompt.end(), static_cast<std::size_t>(page_size_), 0);
      if (below(3) == 0)
        prompt[prompt.size() - 1 - below(static_cast<std::size_t>(page_size_))] = 1;
    }
    prompt.insert(prompt.end(), below(static_cast<std::size_t>(page_size_) + 1), 2);
    if (prompt.empty() && below(4) > 0) prompt.push_back(3);
    return prompt;
  }

  void create() {
    const Tokens prompt = random_prompt();
    const std::vector<std::int32_t> expected = model_.find(prompt);
    const SequenceId id = prefixes_->create(prompt);
    ASSERT_EQ(to_vector(cache_.pages(id)), expected);
    ASSERT_EQ(cache_.length(id), std::ssize(expected) * page_size_);
    model_.create(prompt);
    Tokens text = prompt;
    for (int i = 0; i < page_size_ + 2; i++) text.push_back(static_cast<TokenId>(below(4)));
    requests_[id] = {prompt, text};
  }

  void compute(const Requests::value_type& chosen) {
    const auto rest = uncached(language_model_, chosen.first, chosen.second.text);
    if (rest.empty()) return;
    const auto chunk = rest.first(
        1 + below(std::min<std::size_t>(rest.size(), 2 * static_cast<std::size_t>(page_size_))));
    try {
      language_model_.forward(Segment{chosen.first, chunk, 0}, DeviceRows{});
    } catch (const CacheFull&) {
      full_++;
    }
  }

  // Guesses that were wrong: the text after the prompt changes from somewhere on.
  void roll_back(Requests::value_type& chosen) {
    auto& [id, request] = chosen;
    const auto kept = request.prompt.size() + below(request.text.size() - request.prompt.size());
    for (std::size_t i = kept; i < request.text.size(); i++) {
      request.text[i] = static_cast<TokenId>(below(4));
    }
    cache_.truncate(id, std::min(cache_.length(id), static_cast<int>(kept)));
  }

  void evict() {
    const bool expected = model_.evict([&](std::int32_t page) { return users(page); });
    ASSERT_EQ(prefixes_->evict(), expected);
    if (!expected && prefixes_->pages() > 0) refused_++;
  }

  static std::vector<std::int32_t> to_vector(std::span<const std::int32_t> pages) {
    return {pages.begin(), pages.end()};
  }

  int users(std::int32_t page) const {
    int count = 0;
    for (const auto& [id, request] : requests_) {
      count += static_cast<int>(std::ranges::count(cache_.pages(id), page));
    }
    return count;
  }

  // How many pages could go, one after the other.
  int evictable() const {
    PrefixModel copy = model_;
    int count = 0;
    while (copy.evict([&](std::int32_t page) { return users(page); })) count++;
    return count;
  }

  void check() {
    std::set<std::int32_t> cached;
    for (const auto& [text, page] : model_.pages()) cached.insert(page.number);
    ASSERT_EQ(cached.size(), model_.pages().size()) << "a page is cached once";
    ASSERT_EQ(prefixes_->pages(), static_cast<int>(cached.size()));
    for (std::int32_t page = 0; page < cache_.allocator().n_pages(); page++) {
      ASSERT_EQ(cache_.allocator().owners(page), users(page) + (cached.contains(page) ? 1 : 0))
          << "page " << page;
    }
    for (const auto& [id, request] : requests_) {
      const auto length = cache_.length(id);
      ASSERT_EQ(language_model_.text(id),
                Tokens(request.text.begin(), request.text.begin() + length));
    }
    const Tokens prompt = random_prompt();
    ASSERT_EQ(prefixes_->match_length(prompt), std::ssize(model_.find(prompt)) * page_size_);
    ASSERT_EQ(prefixes_->evictable(), evictable());
    check_stats();
  }

  void check_stats() {
    const PrefixCacheStats &stats = prefixes_->stats(), &expected = model_.stats;
    ASSERT_EQ(stats.lookups, expected.lookups);
    ASSERT_EQ(stats.hits, expected.hits);
    ASSERT_EQ(stats.tokens_asked, expected.tokens_asked);
    ASSERT_EQ(stats.tokens_found, expected.tokens_found);
    ASSERT_EQ(stats.pages_added, expected.pages_added);
    ASSERT_EQ(stats.pages_evicted, expected.pages_evicted);
  }

  int page_size_;
  std::unique_ptr<Backend> backend_ = make_plain_backend();
  PagedKvCache cache_;
  PagedTableModel language_model_;
  std::optional<PrefixCache> prefixes_;
  PrefixModel model_;
  Requests requests_;
  std::mt19937 random_{1};
  int full_ = 0;
  int refused_ = 0;
};

class PrefixCacheRandomTest : public ::testing::TestWithParam<std::tuple<int, PrefixHash>> {};

TEST_P(PrefixCacheRandomTest, AgreesWithAMapOfTexts) {
  const auto [page_size, hash] = GetParam();
  PrefixCacheDriver driver(page_size, hash);
  int step = 0;
  while (step < 20'000 && !HasFatalFailure()) {
    step++;
    driver.step();
  }
  ASSERT_FALSE(HasFatalFailure()) << "in step " << step;
  driver.finish();
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<int, PrefixHash>>& info) {
  const auto [page_size, hash] = info.param;
  return fmt::format("Size{}{}", page_size,
                     hash == always_seven   ? "OneHash"
                     : hash == one_of_three ? "ThreeHashes"
                                            : "");
}

INSTANTIATE_TEST_SUITE_P(PageSizesAndHashes, PrefixCacheRandomTest,
                         ::testing::Combine(::testing::Values(1, 3, 16),
                                            ::testing::Values(fnv_prefix_hash, always_seven,
                                                              one_of_three)),
                         name_of);

}  // namespace
}  // namespace specdec
