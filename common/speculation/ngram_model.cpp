#include "common/speculation/ngram_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/base/error.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

constexpr int kFree = -1;

std::size_t at(TokenId token) { return static_cast<std::size_t>(token); }

// The logarithm of a probability: `count` of `total` tokens, plus mu tokens distributed as `prior`.
double log_smoothed(double count, double total, double prior) {
  constexpr double mu = NgramModel::kPriorTokens;
  return std::log((count + mu * prior) / (total + mu));
}

}  // namespace

NgramModel::NgramModel(Backend& backend, int vocab_size, int token_limit, int order,
                       std::span<const TokenId> text, int max_sequences)
    : backend_(backend), order_(order), row_(vocab_size), lengths_(max_sequences, kFree) {
  SPECDEC_CHECK(order == 1 || order == 2, "order 1 or 2, not {}", order);
  SPECDEC_CHECK(0 < token_limit && token_limit <= vocab_size,
                "{} tokens to be in a vocabulary of {}", token_limit, vocab_size);
  for (const TokenId id : text) {
    SPECDEC_CHECK(0 <= id && id < token_limit, "id {} of the text to be below {}", id, token_limit);
  }
  count_tokens(text, token_limit);
  if (order == 2) count_pairs(text);
  extensions_.reserve(lengths_.size());
}

void NgramModel::count_tokens(std::span<const TokenId> text, int token_limit) {
  std::vector<double> counts(row_.size());
  for (const TokenId id : text) counts[at(id)]++;
  log_unigram_.assign(row_.size(), -std::numeric_limits<double>::infinity());
  for (std::size_t x = 0; x < static_cast<std::size_t>(token_limit); x++) {
    log_unigram_[x] = log_smoothed(counts[x], static_cast<double>(text.size()), 1.0 / token_limit);
  }
}

void NgramModel::count_pairs(std::span<const TokenId> text) {
  std::vector<std::pair<TokenId, TokenId>> pairs;
  pairs.reserve(text.size());
  for (std::size_t i = 1; i < text.size(); i++) pairs.emplace_back(text[i - 1], text[i]);
  std::ranges::sort(pairs);  // equal pairs side by side, and the successors of a token together

  auto pair = pairs.begin();
  for (TokenId h = 0; h < vocab_size(); h++) {
    first_successor_.push_back(successors_.size());
    const auto end = std::find_if(pair, pairs.end(), [h](const auto& p) { return p.first != h; });
    const auto total = static_cast<double>(end - pair);
    log_rest_.push_back(log_smoothed(0, total, 1));
    while (pair != end) {
      const TokenId x = pair->second;
      const auto next = std::find_if(pair, end, [x](const auto& p) { return p.second != x; });
      const double prior = std::exp(log_unigram_[at(x)]);
      const double log_prob = log_smoothed(static_cast<double>(next - pair), total, prior);
      successors_.push_back({x, static_cast<float>(log_prob)});
      pair = next;
    }
  }
  first_successor_.push_back(successors_.size());
}

void NgramModel::forward(std::span<const Segment> batch, const Outputs& out) {
  const DeviceRows& logits = out.logits;
  check(batch, logits);
  int row = 0;
  for (const Segment& segment : batch) {
    lengths_[segment.sequence] += int_size(segment.tokens);
    for (const TokenId token : segment.tokens.last(segment.logits_rows)) {
      const std::span<const float> values = row_after(token);
      backend_.upload(values.data(), logits.row(row), values.size_bytes());
      row++;
    }
  }
}

// Aborts or throws before anything changes.
void NgramModel::check(std::span<const Segment> batch, DeviceRows logits) {
  extensions_.clear();
  int wanted = 0;
  for (const Segment& segment : batch) {
    const int n_tokens = int_size(segment.tokens);
    SPECDEC_CHECK(n_tokens > 0, "a segment of at least one token");
    SPECDEC_CHECK(segment.hidden.rows == 0 && segment.hidden.again == 0, "no rows of counts");
    SPECDEC_CHECK(0 <= segment.logits_rows && segment.logits_rows <= n_tokens,
                  "logits for 0 to {} tokens, not {}", n_tokens, segment.logits_rows);
    wanted += segment.logits_rows;
    check_parents(segment, length(segment.sequence));
    extensions_.push_back({segment.sequence, n_tokens});
    for (const TokenId id : segment.tokens) {
      if (id < 0 || id >= vocab_size()) {
        fail("token id {} is outside the vocabulary of {}", id, vocab_size());
      }
    }
  }
  if (!can_extend(extensions_)) fail("a sequence exceeds {} positions", max_seq_len());
  SPECDEC_CHECK(logits.rows == wanted && (wanted == 0 || logits.width == vocab_size()),
                "logits of {} rows, not {}", wanted, logits.rows);
}

// [snippet ngram-row]
// Log-probabilities of the token that follows `token`, [V]; valid until the next call.
std::span<const float> NgramModel::row_after(TokenId token) {
  const double rest = order_ == 2 ? log_rest_[at(token)] : 0;
  for (std::size_t x = 0; x < row_.size(); x++) {
    row_[x] = static_cast<float>(log_unigram_[x] + rest);
  }
  if (order_ == 2) {
    const std::size_t first = first_successor_[at(token)], end = first_successor_[at(token + 1)];
    for (std::size_t i = first; i < end; i++)
      row_[at(successors_[i].token)] = successors_[i].log_prob;
  }
  return row_;
}
// [end snippet ngram-row]

SequenceId NgramModel::create() {
  const auto free = std::ranges::find(lengths_, kFree);
  if (free == lengths_.end()) {
    throw CacheFull(fmt::format(
        "the n-gram model has room for {} sequences, and all are in use; release one first",
        lengths_.size()));
  }
  *free = 0;
  return static_cast<SequenceId>(free - lengths_.begin());
}

SequenceId NgramModel::fork(SequenceId sequence) {
  const int count = length(sequence);
  const SequenceId result = create();
  lengths_[result] = count;
  return result;
}

void NgramModel::release(SequenceId sequence) {
  truncate(sequence, 0);  // checks that it exists
  lengths_[sequence] = kFree;
}

int NgramModel::length(SequenceId sequence) const {
  const auto index = static_cast<std::size_t>(sequence);
  SPECDEC_CHECK(index < lengths_.size() && lengths_[index] != kFree, "sequence {} to exist",
                sequence);
  return lengths_[index];
}

void NgramModel::truncate(SequenceId sequence, int length) {
  const int current = this->length(sequence);
  SPECDEC_CHECK(0 <= length && length <= current, "to keep 0 to {} tokens, not {}", current,
                length);
  lengths_[sequence] = length;
}

// A row depends on its own token only, so it is enough to keep the number of tokens.
void NgramModel::keep(SequenceId sequence, int start, std::span<const int> kept) {
  truncate(sequence, start + int_size(kept));
}

bool NgramModel::can_extend(std::span<const Extension> extensions) const {
  check_extensions(extensions);
  return std::ranges::all_of(extensions, [this](const Extension& e) {
    return e.tokens <= max_seq_len() - length(e.sequence);
  });
}

}  // namespace specdec
