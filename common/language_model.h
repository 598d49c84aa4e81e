#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "common/base/token_id.h"
#include "common/kv_cache.h"
#include "kernels/ops.h"

namespace specdec {

// [snippet segment]
// Consecutive new tokens of one sequence, following what is cached of it.
struct Segment {
  SequenceId sequence = 0;
  std::span<const TokenId> tokens;  // at least one
  // For how many of the last tokens logits are wanted; none in a prefill.
  int logits_rows = 0;
  std::span<const int> parents = {};  // of a tree of tokens; empty: each follows the one before it
};
// [end snippet segment]

// In a tree of tokens several may follow the same one. Its nodes are numbered; parents has for each
// the number of the node that it follows, which is smaller, or -1 for the token before the tree.
// Where there are more nodes than tokens, the first nodes are cached already, by segments of the
// same tree. A node stands one position behind what it follows, and sees nothing else of the tree:
// so its logits are those of its path alone, bit for bit. In the cache each node has a place.

// How many nodes of the tree a node follows: 0 for one behind the token before the tree.
inline int depth_of(int node, std::span<const int> parents) {
  int depth = 0;
  while ((node = parents[node]) >= 0) ++depth;
  return depth;
}

// Aborts unless the parents are those of a tree for the tokens of the segment, of which so many
// follow `length` cached ones: for implementers of forward().
void check_parents(const Segment& segment, int length);

// A model together with the cache of the sequences it has seen. One call serves plain decoding
// (one segment of one token), prefill (many tokens, no logits), verification (K + 1 tokens, K + 1
// rows of logits) and batches of all of them.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  // Appends the tokens of every segment to its sequence. Row by row, segment after segment,
  // logits[r] gets the distribution after the wanted tokens: [sum of logits_rows, vocab_size()].
  // Rows of ids that are no tokens hold minus infinity. After a segment of a tree, nothing but
  // another of the same tree, keep() or truncate() to what was before it may follow.
  // REQUIRES: distinct sequences. Throws Error when a token is outside the vocabulary, the
  // positions exceed max_seq_len() or the cache is full (CacheFull); then nothing has changed.
  virtual void forward(std::span<const Segment> batch, DeviceRows logits) = 0;

  // Appends one token to each sequence, which the device has chosen and the host does not know.
  // ids: device memory, [sequences]; behind a -1, which is no token, there is no text, and the
  // caller truncates. logits: [sequences, vocab_size()]. Else as forward().
  // REQUIRES: feeds_from_device().
  virtual void forward_chosen(std::span<const SequenceId> sequences, const std::int32_t* ids,
                              DeviceRows logits);
  virtual bool feeds_from_device() const { return false; }

  virtual SequenceId create() = 0;
  virtual SequenceId fork(SequenceId sequence) = 0;
  virtual void release(SequenceId sequence) = 0;
  virtual int length(SequenceId sequence) const = 0;  // tokens cached
  // Forgets the tokens from `length` on; the next forward continues there.
  virtual void truncate(SequenceId sequence, int length) = 0;
  // Of a tree, whose nodes were cached from `start` on, keeps the path of the nodes at the places
  // `kept`, as if only they had been fed, and forgets the others (KvCache::keep).
  virtual void keep(SequenceId sequence, int start, std::span<const int> kept) = 0;
  virtual bool can_extend(std::span<const Extension> extensions) const = 0;

  virtual int vocab_size() const = 0;
  virtual int max_seq_len() const = 0;
  virtual Backend& backend() const = 0;

  // One segment. Convenience.
  void forward(const Segment& segment, DeviceRows logits) {
    forward(std::span<const Segment>(&segment, 1), logits);
  }
};

// [snippet uncached]
// The part of a context that the model has not seen yet. A model is always fed this, so a prompt to
// be prefilled, a pending token and what was missed on the way are all the same thing: catching up.
inline std::span<const TokenId> uncached(const LanguageModel& model, SequenceId sequence,
                                         std::span<const TokenId> context) {
  return context.subspan(model.length(sequence));
}
// [end snippet uncached]

// Rows of logits [rows, vocab_size], allocated once and reused.
class LogitsBuffer {
 public:
  LogitsBuffer(const LanguageModel& model, int rows)
      : values_(model.backend(), std::ptrdiff_t{rows} * model.vocab_size()),
        rows_(rows),
        width_(model.vocab_size()) {}

  DeviceRows rows(int first, int count) const {
    return matrix(values_, rows_, width_).slice(first, count);
  }

 private:
  DeviceArray<float> values_;
  int rows_, width_;
};

// Throws the BadLogits of logits that are not numbers (NaN).
[[noreturn]] void fail_not_numbers();

// The largest logit of a row, the lowest id among equals. logits: [1, vocab_size]. Throws BadLogits
// where they are not numbers: a NaN must not choose a token.
TokenId argmax(Backend& backend, ConstDeviceRows logits);

// Whether two matrices are equal bit for bit.
bool same_bits(Backend& backend, ConstDeviceRows a, ConstDeviceRows b);

// The rows as a dense array on the host.
std::vector<float> to_host(Backend& backend, ConstDeviceRows rows);

}  // namespace specdec
