#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/error.h"
#include "kernels/ops.h"

namespace specdec {

// A sequence of tokens in a cache or a model. The ids of released sequences are used again.
using SequenceId = std::int32_t;

// What a cache keeps of each token: a key and a value per layer, [n_kv_heads * head_dim] of the
// type.
struct KvShape {
  int n_layers = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  KvType type = KvType::kF32;

  int width() const { return n_kv_heads * head_dim; }
  std::size_t key_bytes() const { return width() * element_size(type); }
  std::size_t bytes_per_token() const { return std::size_t{2} * n_layers * key_bytes(); }
};

// The memory of a cache: keys and values of `slots` tokens in every layer, allocated at once.
class KvMemory {
 public:
  // Throws Error when there is not enough memory, saying how much is needed.
  KvMemory(Backend& backend, const KvShape& shape, std::int64_t slots);

  Backend& backend() const { return backend_; }
  const KvShape& shape() const { return shape_; }
  int slots() const { return slots_; }
  std::size_t bytes() const { return slots_ * shape_.bytes_per_token(); }
  KvLayer layer(int i) const;

  // What a slot holds in a layer, as float32 on the host.
  struct Stored {
    std::vector<float> key, value;  // [width]
  };
  Stored read(int layer, int slot) const;

  // Copies `count` slots in every layer. REQUIRES: no overlap.
  void copy(int from_slot, int to_slot, int count);

  // Moves slots in every layer, one after the other. REQUIRES: none is moved to itself.
  void move(std::span<const SlotMove> moves) const;

 private:
  Backend& backend_;
  KvShape shape_;
  int slots_;
  std::vector<DeviceArray<std::byte>> keys_, values_;  // per layer, [slots, width] of the type
};

// A cache does not have enough room; nothing has changed. what(): one line with the counts.
class CacheFull : public Error {
  using Error::Error;
};

// How many tokens to append to a sequence.
struct Extension {
  SequenceId sequence = 0;
  int tokens = 0;
};

// Aborts unless the sequences are distinct and no count is negative. For implementers of extend().
void check_extensions(std::span<const Extension> extensions);

// Maps each position of a sequence to the slot that holds its key and value (the slot mapping), and
// owns the memory. The model's passes write the contents.
//
// Invariants: 0 <= length; every position below length has a slot; a slot that more than one
// sequence reads is never written.
class KvCache {
 public:
  virtual ~KvCache() = default;

  // [snippet kv-cache]
  virtual SequenceId create() = 0;                   // an empty sequence; throws CacheFull
  virtual SequenceId fork(SequenceId sequence) = 0;  // another with the same content
  virtual void release(SequenceId sequence) = 0;
  virtual int length(SequenceId sequence) const = 0;

  // Makes room for more tokens at the end of each sequence, whose lengths grow: all, or none
  // (CacheFull). The new positions hold garbage until a pass writes them. REQUIRES: distinct
  // sequences.
  virtual void extend(std::span<const Extension> extensions) = 0;
  // Whether extend would succeed.
  virtual bool can_extend(std::span<const Extension> extensions) const = 0;

  // Forgets the positions from `length` on. REQUIRES: 0 <= length <= length(sequence).
  virtual void truncate(SequenceId sequence, int length) = 0;
  // [end snippet kv-cache]

  // Keeps the tokens at the places `kept`, moves them together from `start` on, and forgets all
  // other tokens from `start` on: for the accepted path of a tree of drafts. Keys are not rotated
  // again. REQUIRES: kept ascends; start <= kept < length(sequence); no other sequence reads these
  // places, which is so after extend().
  void keep(SequenceId sequence, int start, std::span<const int> kept);

  // The pages of the positions below length, in order. Position j is in slot
  // pages[j / page_size()] * page_size() + j % page_size().
  virtual std::span<const std::int32_t> pages(SequenceId sequence) const = 0;
  virtual int page_size() const = 0;

  virtual const KvMemory& memory() const = 0;

  int slot(SequenceId sequence, int position) const {
    return pages(sequence)[position / page_size()] * page_size() + position % page_size();
  }

 private:
  std::vector<SlotMove> moves_;  // of the last keep()
};

}  // namespace specdec
