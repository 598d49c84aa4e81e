#include "common/kv_cache.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>

#include "common/base/check.h"
#include "common/base/memory.h"

namespace specdec {
namespace {

// For messages; in floating point, because it may not fit an integer.
double bytes_needed(const KvShape& shape, std::int64_t slots) {
  return 2.0 * sizeof(float) * static_cast<double>(slots) * shape.n_layers * shape.n_kv_heads *
         shape.head_dim;
}

// Aborts unless the shape is one; throws when no memory could hold it.
int checked_slots(const KvShape& shape, std::int64_t slots) {
  SPECDEC_CHECK(shape.n_layers > 0 && shape.n_kv_heads > 0 && shape.head_dim > 0,
                "a cache of at least one layer, head and element");
  SPECDEC_CHECK(slots > 0, "room for at least one token, not for {}", slots);
  // Slots and a row's elements are numbered in 32 bits; with fewer than 2^60 bytes, no product of
  // integers overflows here or in the callers.
  constexpr double kLargest = std::numeric_limits<std::int32_t>::max();
  const double width = 1.0 * shape.n_kv_heads * shape.head_dim;
  if (slots > kLargest || width > kLargest || bytes_needed(shape, slots) > 0x1p60) {
    fail(
        "the KV cache needs {} for {} tokens, more than any cache here can hold; "
        "reduce --max-context or --pages",
        readable_bytes(bytes_needed(shape, slots)), slots);
  }
  return static_cast<int>(slots);
}

}  // namespace

KvMemory::KvMemory(Backend& backend, const KvShape& shape, std::int64_t slots)
    : backend_(backend), shape_(shape), slots_(checked_slots(shape, slots)) {
  const std::size_t elements = static_cast<std::size_t>(slots_) * shape_.width();
  try {
    for (int i = 0; i < shape_.n_layers; i++) {
      keys_.emplace_back(backend_, elements);
      values_.emplace_back(backend_, elements);
    }
  } catch (const std::bad_alloc& error) {
    fail(
        "the KV cache needs {} for {} tokens ({} layers of {} x {} keys and values), and {}; "
        "reduce --max-context or --pages",
        readable_bytes(bytes_needed(shape, slots)), slots, shape.n_layers, shape.n_kv_heads,
        shape.head_dim, memory_left(error));
  }
}

KvLayer KvMemory::layer(int i) const {
  SPECDEC_CHECK(0 <= i && i < shape_.n_layers, "layer {} to be one of {}", i, shape_.n_layers);
  const std::size_t layer = static_cast<std::size_t>(i);
  return {keys_[layer].data(), values_[layer].data()};
}

void KvMemory::copy(int from_slot, int to_slot, int count) {
  const auto inside = [&](int slot) { return 0 <= slot && slot <= slots_ - count; };
  SPECDEC_CHECK(count >= 0 && inside(from_slot) && inside(to_slot),
                "{} slots from {} and from {} to be among {}", count, from_slot, to_slot, slots_);
  SPECDEC_CHECK(count <= std::abs(from_slot - to_slot),
                "{} slots from {} and from {} not to overlap", count, from_slot, to_slot);
  const std::ptrdiff_t width = shape_.width();
  for (int i = 0; i < shape_.n_layers; i++) {
    const KvLayer cache = layer(i);
    const std::size_t elements = static_cast<std::size_t>(count * width);
    backend_.copy(cache.keys + from_slot * width, cache.keys + to_slot * width, elements);
    backend_.copy(cache.values + from_slot * width, cache.values + to_slot * width, elements);
  }
}

void KvMemory::move(std::span<const SlotMove> moves) const {
  const auto inside = [&](int slot) { return 0 <= slot && slot < slots_; };
  for (const auto [from, to] : moves) {
    SPECDEC_CHECK(inside(from) && inside(to) && from != to, "slots {} and {} to be two of {}", from,
                  to, slots_);
  }
  for (int i = 0; i < shape_.n_layers; i++) backend_.move_slots(layer(i), shape_.width(), moves);
}

// [snippet keep]
void KvCache::keep(SequenceId sequence, int start, std::span<const int> kept) {
  moves_.clear();
  int length = start;
  for (const int place : kept) {
    SPECDEC_CHECK(length <= place && place < this->length(sequence),
                  "places from {} to {}, ascending, not {}", start, this->length(sequence) - 1,
                  place);
    // What stood at `length` is not kept, or has been moved away already.
    if (place != length) moves_.push_back({slot(sequence, place), slot(sequence, length)});
    length++;
  }
  memory().move(moves_);
  truncate(sequence, length);
}
// [end snippet keep]

// Quadratic, and still nothing beside a pass over the model.
void check_extensions(std::span<const Extension> extensions) {
  for (std::size_t i = 0; i < extensions.size(); i++) {
    const auto [sequence, tokens] = extensions[i];
    SPECDEC_CHECK(tokens >= 0, "to extend sequence {} by 0 or more tokens, not {}", sequence,
                  tokens);
    SPECDEC_CHECK(std::ranges::find(extensions.first(i), sequence, &Extension::sequence) ==
                      extensions.first(i).end(),
                  "to extend sequence {} once in a call", sequence);
  }
}

}  // namespace specdec
