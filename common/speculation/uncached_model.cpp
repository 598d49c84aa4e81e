#include "common/speculation/uncached_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/check.h"
#include "common/base/error.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

constexpr int kFree = -1;

}  // namespace

UncachedModel::UncachedModel(int max_sequences) : lengths_(max_sequences, kFree) {
  extensions_.reserve(lengths_.size());
}

void UncachedModel::extend(std::span<const Segment> batch, const Outputs& out) {
  extensions_.clear();
  int wanted = 0;
  for (const Segment& segment : batch) {
    const int n_tokens = int_size(segment.tokens);
    SPECDEC_CHECK(n_tokens > 0, "a segment of at least one token");
    SPECDEC_CHECK(segment.hidden.rows == 0 && segment.hidden.again == 0,
                  "rows of a model without a residual stream");
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
  const DeviceRows& logits = out.logits;
  SPECDEC_CHECK(logits.rows == wanted && (wanted == 0 || logits.width == vocab_size()),
                "logits of {} rows, not {}", wanted, logits.rows);
  for (const auto& [sequence, tokens] : extensions_) {
    lengths_[sequence] += tokens;
  }
}

SequenceId UncachedModel::create() {
  const auto free = std::ranges::find(lengths_, kFree);
  if (free == lengths_.end()) {
    throw CacheFull(fmt::format(
        "there is room for {} sequences, and all are in use; release one first", lengths_.size()));
  }
  *free = 0;
  return static_cast<SequenceId>(free - lengths_.begin());
}

SequenceId UncachedModel::fork(SequenceId sequence) {
  const int count = length(sequence);
  const SequenceId result = create();
  lengths_[result] = count;
  return result;
}

void UncachedModel::release(SequenceId sequence) {
  truncate(sequence, 0);  // checks that it exists
  lengths_[sequence] = kFree;
}

int UncachedModel::length(SequenceId sequence) const {
  SPECDEC_CHECK(0 <= sequence && sequence < int_size(lengths_) && lengths_[sequence] != kFree,
                "sequence {} to exist", sequence);
  return lengths_[sequence];
}

void UncachedModel::truncate(SequenceId sequence, int length) {
  const int current = this->length(sequence);
  SPECDEC_CHECK(0 <= length && length <= current, "to keep 0 to {} tokens, not {}", current,
                length);
  lengths_[sequence] = length;
}

// Nothing is kept of a token, so which places are kept makes no difference.
void UncachedModel::keep(SequenceId sequence, int start, std::span<const int> kept) {
  truncate(sequence, start + int_size(kept));
}

bool UncachedModel::can_extend(std::span<const Extension> extensions) const {
  check_extensions(extensions);
  return std::ranges::all_of(extensions, [this](const Extension& e) {
    return e.tokens <= max_seq_len() - length(e.sequence);
  });
}

}  // namespace specdec
