#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "tests/poison.h"
#include "tests/table_model.h"

namespace specdec {

// A TableModel whose tokens lie in a real KvCache, of any kind, with one layer of width 1: the key
// in a token's slot is its id, the value its position. What it says is made of what it reads back
// there through the page tables. So a stale entry of a table, a page that is shared wrongly or
// written by two, or a token that should have been rolled back changes its logits, or aborts.
class PagedTableModel final : public LanguageModel {
 public:
  // The logits [V] after a prefix of `length` tokens; valid until the next call. last: the prefix's
  // last `window` tokens, or all that there are.
  using WindowRowOf =
      std::function<std::span<const float>(std::span<const TokenId> last, int length)>;
  static constexpr int kWholePrefix = 1 << 30;

  // Poisons the cache's memory. With a small window, a row costs the same after every prefix; but a
  // wrong token is noticed only while the window has it. REQUIRES: the cache outlives the model and
  // has no sequences yet.
  PagedTableModel(KvCache& cache, int vocab_size, int window, WindowRowOf row_of,
                  int max_seq_len = 1 << 20)
      : cache_(cache),
        vocab_size_(vocab_size),
        window_(window),
        row_of_(std::move(row_of)),
        max_seq_len_(max_seq_len) {
    const KvShape& shape = cache.memory().shape();
    SPECDEC_CHECK(shape.n_layers == 1 && shape.width() == 1, "one layer of width 1");
    SPECDEC_CHECK(window >= 1 && vocab_size <= 1 << 24, "a window, and ids that are exact floats");
    poison(cache);
  }
  // With the rows of a TableModel, which depend on the whole prefix.
  PagedTableModel(KvCache& cache, int vocab_size, TableModel::RowOf row_of,
                  int max_seq_len = 1 << 20)
      : PagedTableModel(
            cache, vocab_size, kWholePrefix,
            [row_of = std::move(row_of)](std::span<const TokenId> prefix, int) {
              return row_of(prefix);
            },
            max_seq_len) {}
  // The table must outlive the model.
  PagedTableModel(KvCache& cache, const ContextTable& table, int max_seq_len = 1 << 20)
      : PagedTableModel(
            cache, table.vocab_size(), ContextTable::kWindow,
            [&table](std::span<const TokenId> last, int length) { return table.row(last, length); },
            max_seq_len) {}

  using LanguageModel::forward;
  void forward(std::span<const Segment> batch, const Outputs& out) override {
    const DeviceRows& logits = out.logits;
    extend_cache(batch, logits);
    for (const Segment& segment : batch) write(segment);  // all, before the first row is made
    int row = 0;
    for (const Segment& segment : batch) {
      const int n_tokens = static_cast<int>(segment.tokens.size());
      for (int i = n_tokens - segment.logits_rows; i < n_tokens; i++) {
        write_row(segment, i, logits.row(row++));
      }
    }
    forwards_++;
    rows_ += row;
  }

  SequenceId create() override { return cache_.create(); }
  SequenceId fork(SequenceId sequence) override { return cache_.fork(sequence); }
  void release(SequenceId sequence) override { cache_.release(sequence); }
  int length(SequenceId sequence) const override { return cache_.length(sequence); }
  void truncate(SequenceId sequence, int length) override { cache_.truncate(sequence, length); }
  void keep(SequenceId sequence, int start, std::span<const int> kept) override {
    cache_.keep(sequence, start, kept);
  }
  bool can_extend(std::span<const Extension> extensions) const override {
    return cache_.can_extend(extensions);
  }

  int vocab_size() const override { return vocab_size_; }
  int max_seq_len() const override { return max_seq_len_; }
  Backend& backend() const override { return cache_.memory().backend(); }

  // The tokens that are cached, read back from the cache.
  std::vector<TokenId> text(SequenceId sequence) const {
    std::vector<int> places(static_cast<std::size_t>(length(sequence)));
    std::iota(places.begin(), places.end(), 0);
    return read(sequence, places, 0);
  }
  std::int64_t forwards() const { return forwards_; }  // that did not fail
  std::int64_t rows() const { return rows_; }          // of logits, in all of them

 private:
  // Checks the batch and makes room for it, or throws, and nothing has changed.
  void extend_cache(std::span<const Segment> batch, DeviceRows logits) {
    std::vector<Extension> extensions;
    for (const Segment& segment : batch) {
      check_segment(segment, length(segment.sequence), vocab_size_, max_seq_len_);
      extensions.push_back({segment.sequence, static_cast<int>(segment.tokens.size())});
    }
    SPECDEC_CHECK(logits.rows == wanted_rows(batch), "{} rows of logits, not {}",
                  wanted_rows(batch), logits.rows);
    cache_.extend(extensions);
  }

  void write(const Segment& segment) {
    const KvRows<float> memory = cache_.memory().layer(0).rows<float>();
    for (int i = 0; i < static_cast<int>(segment.tokens.size()); i++) {
      const int end = length(segment.sequence);
      const int place = end - static_cast<int>(segment.tokens.size()) + i;
      const int slot = cache_.slot(segment.sequence, place);
      const float key = static_cast<float>(segment.tokens[static_cast<std::size_t>(i)]);
      const float value = static_cast<float>(position_of(segment, i, end));
      backend().upload(&key, memory.keys + slot, sizeof(key));
      backend().upload(&value, memory.values + slot, sizeof(value));
    }
  }

  // The logits after token i of a segment.
  void write_row(const Segment& segment, int i, float* logits) {
    const int end = length(segment.sequence), position = position_of(segment, i, end);
    const std::vector<int> seen = places_seen(segment, i, end, window_);
    const std::vector<TokenId> last =
        read(segment.sequence, seen, position + 1 - static_cast<int>(seen.size()));
    const std::span<const float> values = row_of_(last, position + 1);
    SPECDEC_CHECK(std::ssize(values) == vocab_size_, "a row of {} logits", vocab_size_);
    backend().upload(values.data(), logits, values.size_bytes());
  }

  // The tokens at some places, whose positions are `position` and those that follow it.
  std::vector<TokenId> read(SequenceId sequence, std::span<const int> places, int position) const {
    std::vector<TokenId> tokens;
    tokens.reserve(places.size());
    for (const int place : places) tokens.push_back(read(sequence, place, position++));
    return tokens;
  }

  TokenId read(SequenceId sequence, int place, int position) const {
    const KvRows<float> memory = cache_.memory().layer(0).rows<float>();
    const int slot = cache_.slot(sequence, place);
    float key = 0, value = 0;
    backend().download(memory.keys + slot, &key, sizeof(key));
    backend().download(memory.values + slot, &value, sizeof(value));
    // Only what is a token passes; a NaN is none.
    SPECDEC_CHECK(key >= 0 && key < static_cast<float>(vocab_size_) && key == std::floor(key),
                  "position {} of sequence {} to hold a token in slot {}, not {}", position,
                  sequence, slot, key);
    SPECDEC_CHECK(value == static_cast<float>(position),
                  "slot {} to hold position {} of sequence {}, not {}", slot, position, sequence,
                  value);
    return static_cast<TokenId>(key);
  }

  KvCache& cache_;
  int vocab_size_;
  int window_;
  WindowRowOf row_of_;
  int max_seq_len_;
  std::int64_t forwards_ = 0, rows_ = 0;
};

}  // namespace specdec
