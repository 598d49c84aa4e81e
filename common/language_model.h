#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "common/base/token_id.h"
#include "common/kv_cache.h"
#include "kernels/ops.h"

namespace specdec {

// What a segment wants of the residual stream.
struct HiddenWish {
  int rows = 0;   // for this many of the last tokens
  int again = 0;  // this many of the first tokens are cached already: they only give rows again
};

// [snippet segment]
// Consecutive new tokens of one sequence, which follow its cached tokens.
struct Segment {
  SequenceId sequence = 0;
  std::span<const TokenId> tokens;  // at least one
  int logits_rows = 0;  // logits are computed for this many of the last tokens; 0 in a prefill
  std::span<const int> parents = {};  // of a tree of tokens; empty: each follows the one before it
  HiddenWish hidden = {};             // used from stage 9 on
};
// [end snippet segment]

// [snippet outputs]
// Where a pass writes what its segments want; device memory. Each wanted row has its place in the
// order of the segments and their tokens.
struct Outputs {
  DeviceRows logits;  // [sum of logits_rows, V]
  // Used from stage 9 on: [sum of hidden.rows, places.size() * row_width()], the residual stream
  // of each token at all places, side by side. Place n is after n blocks of the model: 0 is the
  // embedding. kAfterNorm is what the head multiplies.
  DeviceRows hidden = {};
  std::span<const int> places = {};  // REQUIRES: lives until the pass is done
  static constexpr int kAfterNorm = -1;

  Outputs(const DeviceRows& logits_ = {})  // NOLINT: most passes hand out logits alone
      : logits(logits_) {}
};
// [end snippet outputs]

// In a tree of tokens, several tokens may follow the same one. Nodes are numbered, and
// parents[node] is the number of the node's parent: smaller than its own, or -1 for the token
// before the tree. If there are more nodes than tokens, earlier segments of the same tree have
// cached the first nodes. A node is one position after its parent, and sees only its ancestors and
// itself: so its logits are those of its path alone, bit for bit. In the cache, each node has its
// own place.

// The number of a node's ancestors in the tree: 0 for a child of the token before the tree.
inline int depth_of(int node, std::span<const int> parents) {
  int depth = 0;
  while ((node = parents[node]) >= 0) ++depth;
  return depth;
}

// Aborts unless the segment's parents describe a tree whose other nodes are among the sequence's
// `length` cached tokens. For implementers of forward().
void check_parents(const Segment& segment, int length);

// A model together with the cache of the sequences it has seen. One call serves plain decoding
// (one segment of one token), prefill (many tokens, no logits), verification (K + 1 tokens, K + 1
// rows of logits) and batches of all of them.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  // Appends the tokens of every segment to its sequence, except those that it computes again. Each
  // token whose logits are wanted gets one row of logits, segment after segment. Ids that are not
  // tokens have minus infinity. After a segment of a tree, call forward() with the rest of the same
  // tree, or keep(), or truncate() to a length before the tree.
  // REQUIRES: distinct sequences; tokens that are computed again are in no tree, are those that the
  // cache holds, and share no place of the cache with those of another segment. Throws Error when a
  // token is outside the vocabulary, the positions exceed max_seq_len() or the cache is full
  // (CacheFull); then nothing has changed.
  virtual void forward(std::span<const Segment> batch, const Outputs& out) = 0;

  // Appends to each sequence one token that the device has chosen and the host does not know.
  // ids: device memory, [sequences]. -1 means no token; the sequence ends there, and the caller
  // truncates it. logits: [sequences, vocab_size()]. Otherwise as forward().
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
  // Keeps one path of a tree, whose nodes were cached from `start` on: the nodes at the places
  // `kept`, as if only they had been fed. Forgets the other nodes (KvCache::keep).
  virtual void keep(SequenceId sequence, int start, std::span<const int> kept) = 0;
  virtual bool can_extend(std::span<const Extension> extensions) const = 0;

  virtual int vocab_size() const = 0;
  virtual int max_seq_len() const = 0;
  // Used from stage 9 on: d_model; 0: the model has no residual stream, and hands out no rows.
  virtual int row_width() const { return 0; }
  virtual int n_blocks() const { return 0; }
  virtual Backend& backend() const = 0;

  // The same for one segment.
  void forward(const Segment& segment, const Outputs& out) {
    forward(std::span<const Segment>(&segment, 1), out);
  }
};

// [snippet uncached]
// The part of a context that the model has not seen yet. A model is always fed exactly this part:
// a prompt in a prefill, a pending token, and tokens that the model missed are all the same case.
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

// Throws BadLogits, which says that logits are not numbers (NaN).
[[noreturn]] void fail_not_numbers();

// The id of the largest logit, the lowest id among equals. logits: [1, vocab_size]. Throws
// BadLogits if one is NaN: a NaN must not choose a token.
TokenId argmax(Backend& backend, ConstDeviceRows logits);

// Whether two matrices are equal bit for bit.
bool same_bits(Backend& backend, ConstDeviceRows a, ConstDeviceRows b);

// The rows as a dense array on the host.
std::vector<float> to_host(Backend& backend, ConstDeviceRows rows);

}  // namespace specdec
