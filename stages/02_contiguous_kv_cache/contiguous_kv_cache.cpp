#include "stages/02_contiguous_kv_cache/contiguous_kv_cache.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {

ContiguousKvCache::ContiguousKvCache(Backend& backend, const KvShape& shape, int max_sequences,
                                     int max_length)
    : max_length_(max_length),
      memory_(backend, shape, std::int64_t{max_sequences} * max_length),
      regions_(max_sequences) {
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    regions_[i].number = i;
  }
}

SequenceId ContiguousKvCache::create() {
  const auto free = std::ranges::find(regions_, false, &Region::taken);
  if (free == regions_.end()) {
    throw CacheFull(fmt::format(
        "the KV cache is full: it has room for {} sequences, and all are in use; release one first",
        regions_.size()));
  }
  free->taken = true;
  free->length = 0;
  return free->number;
}

SequenceId ContiguousKvCache::fork(SequenceId sequence) {
  // [task 2.3: fork a sequence]
  const int count = length(sequence);
  const SequenceId result = create();
  memory_.copy(sequence * max_length_, result * max_length_, count);
  bytes_copied_ += count * memory_.shape().bytes_per_token();
  region(result).length = count;
  return result;
  // [end task 2.3]
}

void ContiguousKvCache::release(SequenceId sequence) { region(sequence).taken = false; }

int ContiguousKvCache::length(SequenceId sequence) const { return region(sequence).length; }

// [snippet contiguous-extend]
bool ContiguousKvCache::has_room(const Extension& extension) const {
  return extension.tokens <= max_length_ - length(extension.sequence);
}

bool ContiguousKvCache::can_extend(std::span<const Extension> extensions) const {
  check_extensions(extensions);
  return std::ranges::all_of(extensions, [&](const Extension& e) { return has_room(e); });
}

void ContiguousKvCache::extend(std::span<const Extension> extensions) {
  check_extensions(extensions);
  // [task 2.1: extend, all or nothing]
  // Checks all sequences before it changes the first one, so that a failure changes nothing.
  for (const Extension& e : extensions) {
    if (has_room(e)) continue;
    throw CacheFull(fmt::format(
        "the KV cache is full: sequence {} has {} tokens and needs {} more, but there is room for "
        "{} in all; raise --max-context",
        e.sequence, length(e.sequence), e.tokens, max_length_));
  }
  for (const Extension& e : extensions) region(e.sequence).length += e.tokens;
  // [end task 2.1]
}

void ContiguousKvCache::truncate(SequenceId sequence, int length) {
  // [task 2.2: truncate a sequence]
  // Nothing is erased: slots beyond the length are never read, and the next tokens overwrite them.
  // So a rollback costs nothing, however many tokens it drops.
  Region& s = region(sequence);
  SPECDEC_CHECK(0 <= length && length <= s.length, "to keep 0 to {} tokens, not {}", s.length,
                length);
  s.length = length;
  // [end task 2.2]
}
// [end snippet contiguous-extend]

std::span<const std::int32_t> ContiguousKvCache::pages(SequenceId sequence) const {
  const Region& s = region(sequence);
  return {&s.number, s.length > 0 ? std::size_t{1} : std::size_t{0}};
}

ContiguousKvCache::Region& ContiguousKvCache::region(SequenceId sequence) {
  return const_cast<Region&>(std::as_const(*this).region(sequence));
}

const ContiguousKvCache::Region& ContiguousKvCache::region(SequenceId sequence) const {
  SPECDEC_CHECK(0 <= sequence && sequence < int_size(regions_) && regions_[sequence].taken,
                "sequence {} to exist", sequence);
  return regions_[sequence];
}

}  // namespace specdec
