#pragma once
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "common/kv_cache.h"
#include "tests/test_support.h"

namespace specdec {

// Calls a cache at random and keeps a simple model of it: for each sequence, the list of the values
// that were written. After every step, the keys and values in the cache's memory must equal the
// model's. Slots that no sequence reads are full of NaN. A call that fails must change nothing.
class KvCacheDriver {
 public:
  using Model = std::map<SequenceId, std::vector<float>>;

  // The functions that depend on the kind of cache.
  struct Hooks {
    // Whether there is room, computed independently of the cache.
    std::function<bool(const Model&, const std::vector<Extension>&)> has_room;
    std::function<bool(const Model&)> can_create;
    std::function<SequenceId(SequenceId, int)> share_prefix;  // may be empty, like the next ones
    std::function<SequenceId(std::span<const std::int32_t>)> share_pages;
    std::function<void(std::int32_t page)> hold, drop;
    std::function<void(const Model&)> check_books;
    int longest_extension = 8;
  };

  KvCacheDriver(KvCache& cache, Hooks hooks, unsigned seed)
      : cache_(cache), hooks_(std::move(hooks)), generator_(seed) {}

  // Makes one random call, then checks everything. Failures name the step.
  void step() {
    steps_++;
    const unsigned choice = below(100);
    if (model_.size() > 6) {
      release(any());
    } else if (model_.empty() || choice < 6) {
      create();
    } else if (choice < 11) {
      add_copy([&](SequenceId from, int) { return cache_.fork(from); }, true);
    } else if (choice < 16) {
      if (hooks_.share_prefix) add_copy(hooks_.share_prefix, false);
    } else if (choice < 26) {
      release(any());
    } else if (choice < 45) {
      truncate(any());
    } else if (choice < 50) {
      if (hooks_.hold) hold_drop_or_share();
    } else if (choice < 53) {
      extend_and_take_back();
    } else if (choice < 65) {
      extend_and_keep();
    } else {
      extend();
    }
    poison_unread_slots();
    check();
  }

  void release_all() {
    while (!model_.empty()) release(model_.begin()->first);
    while (!held_.empty()) drop(0);
    check();
  }

  int failed_calls() const { return failed_calls_; }
  // Floats count exactly to 2^20 where four bits are left for the elements' tags.
  bool values_are_distinct() const { return next_value_ < 0x1p20f; }

 private:
  unsigned below(std::size_t bound) { return static_cast<unsigned>(generator_() % bound); }
  SequenceId any() { return std::next(model_.begin(), below(model_.size()))->first; }

  void create() {
    if (!hooks_.can_create(model_)) return expect_full([&] { cache_.create(); });
    const SequenceId id = cache_.create();
    ASSERT_FALSE(model_.contains(id)) << "step " << steps_;
    ASSERT_EQ(cache_.length(id), 0) << "a new sequence is empty; step " << steps_;
    model_[id] = {};
  }

  template <typename Copy>
  void add_copy(Copy copy, bool whole) {
    const SequenceId from = any();
    const auto length = whole ? model_[from].size() : below(model_[from].size() + 1);
    if (!hooks_.can_create(model_)) {
      return expect_full([&] { copy(from, static_cast<int>(length)); });
    }
    const SequenceId id = copy(from, static_cast<int>(length));
    ASSERT_FALSE(model_.contains(id)) << "step " << steps_;
    model_[id].assign(model_[from].begin(), model_[from].begin() + static_cast<long>(length));
  }

  void release(SequenceId id) {
    cache_.release(id);
    model_.erase(id);
  }

  void truncate(SequenceId id) {
    const std::size_t length = below(model_[id].size() + 1);
    cache_.truncate(id, static_cast<int>(length));
    model_[id].resize(length);
  }

  // A page that is held without a sequence, and the values of its used rows, which must not change.
  struct HeldPage {
    std::int32_t page = 0;
    std::vector<float> values;
  };

  void hold_drop_or_share() {
    const unsigned choice = below(4);
    if (held_.size() > 3 || (choice == 0 && !held_.empty())) {
      drop(below(held_.size()));
    } else if (choice == 1) {
      share_held_pages();
    } else {
      hold_page_of(any());
    }
  }

  void hold_page_of(SequenceId id) {
    const std::span<const std::int32_t> pages = cache_.pages(id);
    if (pages.empty()) return;
    const std::size_t i = below(pages.size()), page_size = page_slots();
    const std::span<const float> values = std::span(model_[id]).subspan(i * page_size);
    const std::span<const float> rows = values.first(std::min(values.size(), page_size));
    hooks_.hold(pages[i]);
    held_.push_back({pages[i], {rows.begin(), rows.end()}});
  }

  void drop(std::size_t i) {
    hooks_.drop(held_[i].page);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  // Makes a sequence from the held pages that are full, in their original order.
  void share_held_pages() {
    std::vector<std::int32_t> pages;
    std::vector<float> values;
    for (const HeldPage& held : held_) {
      const bool full = held.values.size() == page_slots();
      if (!full || std::ranges::find(pages, held.page) != pages.end()) continue;
      pages.push_back(held.page);
      values.insert(values.end(), held.values.begin(), held.values.end());
    }
    const SequenceId id = hooks_.share_pages(pages);
    ASSERT_FALSE(model_.contains(id)) << "step " << steps_;
    model_[id] = std::move(values);
  }

  // Picks up to four sequences; some may be forks of each other.
  std::vector<Extension> random_extensions() {
    std::vector<SequenceId> ids;
    for (const auto& [id, values] : model_) ids.push_back(id);
    for (std::size_t i = ids.size(); i > 1; i--) std::swap(ids[i - 1], ids[below(i)]);
    ids.resize(std::min<std::size_t>(ids.size(), 1 + below(4)));
    std::vector<Extension> extensions;
    for (const SequenceId id : ids) {
      const unsigned tokens = below(static_cast<unsigned>(hooks_.longest_extension) + 1);
      extensions.push_back({id, static_cast<int>(tokens)});
    }
    return extensions;
  }

  bool try_to_extend(const std::vector<Extension>& extensions) {
    const bool room = hooks_.has_room(model_, extensions);
    EXPECT_EQ(cache_.can_extend(extensions), room) << "step " << steps_;
    if (room) {
      cache_.extend(extensions);
    } else {
      expect_full([&] { cache_.extend(extensions); });
    }
    return room;
  }

  void extend() {
    const std::vector<Extension> extensions = random_extensions();
    if (try_to_extend(extensions)) append(extensions);
  }

  void append(const std::vector<Extension>& extensions) {
    for (const Extension& e : extensions) {
      for (int i = 0; i < e.tokens; i++) {
        model_[e.sequence].push_back(next_value_);
        write(cache_.slot(e.sequence, static_cast<int>(model_[e.sequence].size()) - 1),
              next_value_++);
      }
    }
  }

  // As after the verification of a tree: keeps a part of what was appended.
  void extend_and_keep() {
    const std::vector<Extension> extensions = random_extensions();
    if (!try_to_extend(extensions)) return;
    append(extensions);
    for (const Extension& e : extensions) {
      std::vector<float>& values = model_[e.sequence];
      const int length = static_cast<int>(values.size()), start = length - e.tokens;
      std::vector<int> kept;
      std::vector<float> left(values.begin(), values.begin() + start);
      for (int place = start; place < length; place++) {
        if (below(2) == 0) continue;
        kept.push_back(place);
        left.push_back(values[static_cast<std::size_t>(place)]);
      }
      cache_.keep(e.sequence, start, kept);
      values = std::move(left);
    }
  }

  // As when a pass of the model fails after the cache was extended.
  void extend_and_take_back() {
    const std::vector<Extension> extensions = random_extensions();
    if (!try_to_extend(extensions)) return;
    for (const Extension& e : extensions) {
      cache_.truncate(e.sequence, static_cast<int>(model_[e.sequence].size()));
    }
  }

  template <typename Action>
  void expect_full(Action action) {
    failed_calls_++;
    std::map<SequenceId, std::vector<std::int32_t>> tables;
    for (const auto& [id, values] : model_) tables[id] = to_vector(cache_.pages(id));
    EXPECT_THROW(action(), CacheFull) << "step " << steps_;
    for (const auto& [id, table] : tables) {
      EXPECT_EQ(to_vector(cache_.pages(id)), table) << "step " << steps_;
    }
  }

  static std::vector<std::int32_t> to_vector(std::span<const std::int32_t> pages) {
    return {pages.begin(), pages.end()};
  }

  // Gives each layer, key, value and element a number of its own.
  template <typename Visit>
  void visit(int slot, float value, Visit visit_element) const {
    const KvMemory& memory = cache_.memory();
    const int width = memory.shape().width();
    for (int l = 0; l < memory.shape().n_layers; l++) {
      const KvRows<float> layer = memory.layer(l).rows<float>();
      for (int i = 0; i < width; i++) {
        const float tag = static_cast<float>(l * width + i) / 16;
        visit_element(layer.keys[slot * width + i], value + tag);
        visit_element(layer.values[slot * width + i], -value - tag);
      }
    }
  }

  void write(int slot, float value) {
    visit(slot, value, [](float& element, float number) { element = number; });
  }

  bool holds(int slot, float value) const {
    bool equal = true;
    visit(slot, value, [&](float element, float number) { equal = equal && element == number; });
    return equal;
  }

  std::size_t page_slots() const { return static_cast<std::size_t>(cache_.page_size()); }
  std::size_t slot_of(const HeldPage& held, std::size_t row) const {
    return static_cast<std::size_t>(held.page) * page_slots() + row;
  }

  void poison_unread_slots() {
    std::vector<bool> read(static_cast<std::size_t>(cache_.memory().slots()));
    for (const auto& [id, values] : model_) {
      for (int j = 0; j < cache_.length(id); j++) {
        read[static_cast<std::size_t>(cache_.slot(id, j))] = true;
      }
    }
    for (const HeldPage& held : held_) {
      for (std::size_t row = 0; row < held.values.size(); row++) read[slot_of(held, row)] = true;
    }
    for (std::size_t slot = 0; slot < read.size(); slot++) {
      if (!read[slot]) write(static_cast<int>(slot), std::numeric_limits<float>::quiet_NaN());
    }
  }

  void check() {
    for (const auto& [id, values] : model_) {
      ASSERT_EQ(cache_.length(id), static_cast<int>(values.size())) << "step " << steps_;
      ASSERT_EQ(cache_.pages(id).size(), (values.size() + page_slots() - 1) / page_slots())
          << "step " << steps_;
      for (std::size_t j = 0; j < values.size(); j++) {
        ASSERT_TRUE(holds(cache_.slot(id, static_cast<int>(j)), values[j]))
            << "step " << steps_ << ", sequence " << id << ", position " << j;
      }
    }
    for (const HeldPage& held : held_) {
      for (std::size_t row = 0; row < held.values.size(); row++) {
        ASSERT_TRUE(holds(static_cast<int>(slot_of(held, row)), held.values[row]))
            << "step " << steps_ << ", held page " << held.page << ", row " << row;
      }
    }
    hooks_.check_books(model_);
  }

  KvCache& cache_;
  Hooks hooks_;
  std::mt19937 generator_;
  Model model_;
  std::vector<HeldPage> held_;
  float next_value_ = 1;
  int steps_ = 0;
  int failed_calls_ = 0;
};

// Makes steps until the first failure.
inline void drive(KvCacheDriver& driver, int steps) {
  for (int i = 0; i < steps && !::testing::Test::HasFailure(); i++) driver.step();
  if (!::testing::Test::HasFailure()) driver.release_all();
  EXPECT_TRUE(driver.values_are_distinct());
}

}  // namespace specdec
