#include "common/kv_cache.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>

#include "common/base/check.h"
#include "common/base/memory.h"
#include "kernels/cpu/half.h"

namespace specdec {
namespace {

// For messages. In floating point, because the number may not fit an integer.
double bytes_needed(const KvShape& shape, std::int64_t slots) {
  return 2.0 * element_size(shape.type) * slots * shape.n_layers * shape.n_kv_heads *
         shape.head_dim;
}

// Aborts if the shape is invalid; throws Error if no memory could hold the cache.
int checked_slots(const KvShape& shape, std::int64_t slots) {
  SPECDEC_CHECK(shape.n_layers > 0 && shape.n_kv_heads > 0 && shape.head_dim > 0,
                "a cache of at least one layer, head and element");
  SPECDEC_CHECK(shape.type == KvType::kF32 || shape.head_dim % 2 == 0,
                "numbers of 16 bits in pairs, not in heads of {}", shape.head_dim);
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
  return slots;
}

}  // namespace

KvMemory::KvMemory(Backend& backend, const KvShape& shape, std::int64_t slots)
    : backend_(backend), shape_(shape), slots_(checked_slots(shape, slots)) {
  const std::size_t layer_bytes = slots_ * shape_.key_bytes();
  try {
    for (int i = 0; i < shape_.n_layers; ++i) {
      keys_.emplace_back(backend_, layer_bytes);
      values_.emplace_back(backend_, layer_bytes);
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
  return {keys_[i].data(), values_[i].data(), shape_.type};
}

KvMemory::Stored KvMemory::read(int layer, int slot) const {
  const std::size_t width = shape_.width();
  Stored stored{std::vector<float>(width), std::vector<float>(width)};
  with_rows(this->layer(layer), [&]<typename T>(KvRows<T> rows) {
    std::vector<T> row(width);
    const auto read_row = [&](const T* from, std::vector<float>& to) {
      backend_.download(from + slot * width, row.data(), shape_.key_bytes());
      std::ranges::transform(row, to.begin(), [](T number) { return cpu::to_float(number); });
    };
    read_row(rows.keys, stored.key);
    read_row(rows.values, stored.value);
  });
  return stored;
}

void KvMemory::copy(int from_slot, int to_slot, int count) {
  const auto inside = [&](int slot) { return 0 <= slot && slot <= slots_ - count; };
  SPECDEC_CHECK(count >= 0 && inside(from_slot) && inside(to_slot),
                "{} slots from {} and from {} to be among {}", count, from_slot, to_slot, slots_);
  SPECDEC_CHECK(count <= std::abs(from_slot - to_slot),
                "{} slots from {} and from {} not to overlap", count, from_slot, to_slot);
  const std::size_t bytes = shape_.key_bytes();
  const auto copy_slots = [&](std::byte* slots) {
    backend_.copy(slots + from_slot * bytes, slots + to_slot * bytes, count * bytes);
  };
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    copy_slots(keys_[i].data());
    copy_slots(values_[i].data());
  }
}

void KvMemory::move(std::span<const SlotMove> moves) const {
  const auto inside = [&](int slot) { return 0 <= slot && slot < slots_; };
  for (const auto [from, to] : moves) {
    SPECDEC_CHECK(inside(from) && inside(to) && from != to, "slots {} and {} to be two of {}", from,
                  to, slots_);
  }
  for (int i = 0; i < shape_.n_layers; ++i) backend_.move_slots(layer(i), shape_.width(), moves);
}

// [snippet keep]
void KvCache::keep(SequenceId sequence, int start, std::span<const int> kept) {
  moves_.clear();
  int length = start;
  for (const int place : kept) {
    SPECDEC_CHECK(length <= place && place < this->length(sequence),
                  "places from {} to {}, ascending, not {}", start, this->length(sequence) - 1,
                  place);
    // The token at `length` is not kept, or has already been moved.
    if (place != length) moves_.push_back({slot(sequence, place), slot(sequence, length)});
    ++length;
  }
  memory().move(moves_);
  truncate(sequence, length);
}
// [end snippet keep]

// Quadratic, but still negligible beside a pass over the model.
void check_extensions(std::span<const Extension> extensions) {
  for (std::size_t i = 0; i < extensions.size(); ++i) {
    const auto [sequence, tokens] = extensions[i];
    SPECDEC_CHECK(tokens >= 0, "to extend sequence {} by 0 or more tokens, not {}", sequence,
                  tokens);
    SPECDEC_CHECK(std::ranges::find(extensions.first(i), sequence, &Extension::sequence) ==
                      extensions.first(i).end(),
                  "to extend sequence {} once in a call", sequence);
  }
}

}  // namespace specdec
