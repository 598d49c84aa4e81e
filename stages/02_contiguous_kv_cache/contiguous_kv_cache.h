#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/kv_cache.h"

namespace specdec {

// The simplest cache: one region of max_length slots for each sequence, which the sequence owns as
// long as it lives, however short it is. The region is the sequence's only page:
//
//   slot of (sequence, position) = sequence * max_length + position
//
//   sequence 0          sequence 1          sequence 2
//   [k k k k k . . . . .|k k . . . . . . . .|. . . . . . . . . .]
//
// Stage 3 shows what this wastes: no other sequence can use the dots, and fork() must copy.
class ContiguousKvCache : public KvCache {
 public:
  // Allocates all memory. Throws Error when there is not enough.
  // REQUIRES: max_sequences >= 1, max_length >= 1.
  ContiguousKvCache(Backend& backend, const KvShape& shape, int max_sequences, int max_length);

  SequenceId create() override;
  SequenceId fork(SequenceId sequence) override;  // throws CacheFull
  void release(SequenceId sequence) override;
  int length(SequenceId sequence) const override;
  void extend(std::span<const Extension> extensions) override;
  bool can_extend(std::span<const Extension> extensions) const override;
  void truncate(SequenceId sequence, int length) override;

  std::span<const std::int32_t> pages(SequenceId sequence) const override;
  int page_size() const override { return max_length_; }
  const KvMemory& memory() const override { return memory_; }

  std::size_t bytes_copied() const { return bytes_copied_; }  // by fork(), so far

 private:
  struct Region {
    std::int32_t number = 0;  // its index among the regions: the page table of its sequence
    bool taken = false;
    int length = 0;  // tokens cached
  };

  Region& region(SequenceId sequence);
  const Region& region(SequenceId sequence) const;
  bool has_room(const Extension& extension) const;

  int max_length_;
  KvMemory memory_;
  std::vector<Region> regions_;  // [max_sequences], by SequenceId
  std::size_t bytes_copied_ = 0;
};

}  // namespace specdec
