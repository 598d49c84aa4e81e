#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "common/language_model.h"
#include "kernels/cpu/cpu_backend.h"

namespace specdec {

// What LanguageModel::forward asks of a segment that follows `length` cached tokens.
inline void check_segment(const Segment& segment, int length, int vocab_size, int max_seq_len) {
  SPECDEC_CHECK(!segment.tokens.empty(), "a segment with tokens");
  SPECDEC_CHECK(segment.hidden.rows == 0 && segment.hidden.again == 0, "no rows of a model without them");
  SPECDEC_CHECK(0 <= segment.logits_rows && segment.logits_rows <= std::ssize(segment.tokens),
                "logits for 0 to {} tokens, not {}", segment.tokens.size(), segment.logits_rows);
  for (const TokenId token : segment.tokens) {
    if (token < 0 || token >= vocab_size) fail("token {} is outside the vocabulary", token);
  }
  check_parents(segment, length);
  int end = length + static_cast<int>(segment.tokens.size());  // of the positions
  if (!segment.parents.empty()) {
    const int nodes = static_cast<int>(segment.parents.size()), begin = end - nodes;
    end = 0;
    for (int node = 0; node < nodes; node++) {
      end = std::max(end, begin + depth_of(node, segment.parents) + 1);
    }
  }
  if (end > max_seq_len) fail("the positions exceed {}", max_seq_len);
}

// The position of token i of a segment. length: of the sequence, the segment's tokens among it.
inline int position_of(const Segment& segment, int i, int length) {
  const int place = length - static_cast<int>(segment.tokens.size()) + i;
  if (segment.parents.empty()) return place;
  const int begin = length - static_cast<int>(segment.parents.size());
  return begin + depth_of(place - begin, segment.parents);
}

// The places in the cache of what token i of a segment sees, itself the last: the last `most` ones.
inline std::vector<int> places_seen(const Segment& segment, int i, int length,
                                    int most = std::numeric_limits<int>::max()) {
  const int begin = length - static_cast<int>(segment.parents.size());
  std::vector<int> places;
  int place = length - static_cast<int>(segment.tokens.size()) + i;
  while (place >= 0 && std::ssize(places) < most) {
    places.push_back(place);
    if (segment.parents.empty() || place < begin) {
      place--;
    } else {
      place = begin + segment.parents[static_cast<std::size_t>(place - begin)];
    }
  }
  std::ranges::reverse(places);
  return places;
}

// How many rows of logits a batch wants.
inline int wanted_rows(std::span<const Segment> batch) {
  int rows = 0;
  for (const Segment& segment : batch) rows += segment.logits_rows;
  return rows;
}

// A language model without a network: its logits are whatever a function makes of the tokens so
// far. It keeps the tokens themselves as its cache, so a token that should have been rolled back
// changes what it says.
class TableModel final : public LanguageModel {
 public:
  // The logits [V] after a prefix, which has at least one token; valid until the next call.
  using RowOf = std::function<std::span<const float>(std::span<const TokenId> prefix)>;

  TableModel(int vocab_size, RowOf row_of, int max_seq_len = 1 << 20)
      : backend_(make_plain_backend()),
        vocab_size_(vocab_size),
        max_seq_len_(max_seq_len),
        row_of_(std::move(row_of)) {}

  using LanguageModel::forward;
  void forward(std::span<const Segment> batch, const Outputs& out) override {
    const DeviceRows& logits = out.logits;
    for (const Segment& segment : batch) {
      check_segment(segment, length(segment.sequence), vocab_size_, max_seq_len_);
    }
    SPECDEC_CHECK(logits.rows == wanted_rows(batch), "{} rows of logits, not {}",
                  wanted_rows(batch), logits.rows);
    int row = 0;
    for (const Segment& segment : batch) {
      std::vector<TokenId>& text = texts_.at(static_cast<std::size_t>(segment.sequence));
      const std::size_t unwanted =
          segment.tokens.size() - static_cast<std::size_t>(segment.logits_rows);
      text.insert(text.end(), segment.tokens.begin(), segment.tokens.end());
      for (std::size_t i = unwanted; i < segment.tokens.size(); i++) {
        const std::span<const float> values = row_after(segment, static_cast<int>(i), text);
        SPECDEC_CHECK(std::ssize(values) == vocab_size_, "a row of {} logits", vocab_size_);
        backend_->upload(values.data(), logits.row(row++), values.size_bytes());
      }
    }
  }

  SequenceId create() override { return add({}); }
  SequenceId fork(SequenceId sequence) override { return add(text(sequence)); }
  void release(SequenceId sequence) override {
    texts_.at(static_cast<std::size_t>(sequence)).clear();
    free_.push_back(sequence);
  }
  int length(SequenceId sequence) const override { return static_cast<int>(text(sequence).size()); }
  void truncate(SequenceId sequence, int length) override {
    SPECDEC_CHECK(length >= 0 && length <= this->length(sequence),
                  "a length of 0 to {} tokens, not {}", this->length(sequence), length);
    texts_.at(static_cast<std::size_t>(sequence)).resize(static_cast<std::size_t>(length));
  }
  void keep(SequenceId sequence, int start, std::span<const int> kept) override {
    std::vector<TokenId>& text = texts_.at(static_cast<std::size_t>(sequence));
    auto end = static_cast<std::size_t>(start);
    for (const int place : kept) text.at(end++) = text.at(static_cast<std::size_t>(place));
    text.resize(end);
  }
  bool can_extend(std::span<const Extension>) const override { return true; }

  int vocab_size() const override { return vocab_size_; }
  int max_seq_len() const override { return max_seq_len_; }
  Backend& backend() const override { return *backend_; }

  // The tokens that are cached.
  const std::vector<TokenId>& text(SequenceId sequence) const {
    return texts_.at(static_cast<std::size_t>(sequence));
  }

 private:
  // What follows token i of a segment, whose tokens are the last of the text.
  std::span<const float> row_after(const Segment& segment, int i, std::span<const TokenId> text) {
    const int length = static_cast<int>(text.size());
    if (segment.parents.empty()) {
      return row_of_(text.first(static_cast<std::size_t>(position_of(segment, i, length) + 1)));
    }
    std::vector<TokenId> prefix;
    for (const int place : places_seen(segment, i, length)) {
      prefix.push_back(text[static_cast<std::size_t>(place)]);
    }
    return row_of_(prefix);
  }

  SequenceId add(std::vector<TokenId> text) {
    if (free_.empty()) {
      texts_.push_back(std::move(text));
      return static_cast<SequenceId>(texts_.size()) - 1;
    }
    const SequenceId sequence = free_.back();
    free_.pop_back();
    texts_[static_cast<std::size_t>(sequence)] = std::move(text);
    return sequence;
  }

  std::unique_ptr<Backend> backend_;
  int vocab_size_;
  int max_seq_len_;
  RowOf row_of_;
  std::vector<std::vector<TokenId>> texts_;
  std::vector<SequenceId> free_;
};

// Rows of logits for TableModel, each a function of the last two tokens and of whether the length
// is even: a row at the wrong position, or after the wrong tokens, is another row.
class ContextTable {
 public:
  using MakeRow = std::function<std::vector<double>(int row)>;  // probabilities, up to a factor

  ContextTable(int vocab_size, const MakeRow& make_row) : vocab_size_(vocab_size) {
    for (int row = 0; row < 2 * vocab_size * vocab_size; row++) {
      for (const double prob : make_row(row)) {  // of 0: minus infinity
        logits_.push_back(static_cast<float>(std::log(prob)));
      }
    }
  }

  static constexpr int kWindow = 2;  // tokens that a row depends on, beside the length

  std::span<const float> row(std::span<const TokenId> prefix) const {
    return row(prefix.last(std::min<std::size_t>(prefix.size(), kWindow)),
               static_cast<int>(prefix.size()));
  }
  // Of a prefix of so many tokens. last: its last kWindow tokens, or all.
  std::span<const float> row(std::span<const TokenId> last, int length) const {
    const std::size_t V = static_cast<std::size_t>(vocab_size_), odd = length % 2 == 0 ? 0 : 1;
    const auto after = static_cast<std::size_t>(last.back());
    const auto before = static_cast<std::size_t>(last.front());
    return std::span(logits_).subspan(((odd * V + before) * V + after) * V, V);
  }
  int vocab_size() const { return vocab_size_; }
  // REQUIRES: the table outlives the function.
  TableModel::RowOf row_of() const {
    return [this](std::span<const TokenId> prefix) { return row(prefix); };
  }

 private:
  int vocab_size_;
  std::vector<float> logits_;  // [2, V, V, V]
};

// A row of random probabilities, up to a factor; each is zero with probability `zeros`, but never
// all of them.
inline std::vector<double> random_weights(int vocab_size, double zeros, std::mt19937& random) {
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<double> weights(static_cast<std::size_t>(vocab_size));
  for (double& weight : weights) {
    weight = uniform(random) < zeros ? 0 : 0.05 + uniform(random) * uniform(random);
  }
  weights[random() % weights.size()] += 0.1;
  return weights;
}

using Probs = std::vector<double>;

inline Probs normalised(Probs weights) {
  double total = 0;
  for (const double weight : weights) total += weight;
  for (double& weight : weights) weight /= total;
  return weights;
}

// Pairs (p, q) with everything that two rows can be to each other.
inline std::vector<std::pair<Probs, Probs>> pairs_of_probs() {
  std::vector<std::pair<Probs, Probs>> pairs = {
      {{0.25, 0.75, 0, 0}, {0, 0, 0.5, 0.5}},  // disjoint
      {{0.25, 0.75}, {0.25, 0.75}},            // equal
      {{0, 1, 0}, {0.25, 0.5, 0.25}},          // p all on one token
      {{0.25, 0.5, 0.25}, {0, 1, 0}},          // q all on one token
      {{0, 1}, {1, 0}},                        // both, on different ones
      {{1}, {1}}};
  std::mt19937 random(1);
  for (int V = 2; V <= 5; V++) {
    for (int i = 0; i < 40; i++) {
      const double zeros = i % 2 == 0 ? 0 : 0.35;
      const Probs target_probs = normalised(random_weights(V, zeros, random));
      pairs.emplace_back(target_probs, normalised(random_weights(V, zeros, random)));
    }
  }
  return pairs;
}

}  // namespace specdec
