#include "kernels/emulation/shared_barriers.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <vector>

#include "kernels/emulation/block_memory.h"
#include "kernels/emulation/sanitizers.h"

namespace specdec::emulation {
namespace {

constexpr std::size_t kUnit = 16;  // bytes that a swizzle keeps together

struct BoxCopy {
  unsigned char* to;
  CUtensorMap from;
  std::ptrdiff_t column_byte, row;
  CallSite site;
  bool spoiled;                      // the destination, by the request
  std::vector<unsigned char> early;  // the box when the copy was requested
};

struct Barrier {
  int count, pending;
  std::ptrdiff_t expected = 0, coming = 0;  // bytes of this phase
  int parity = 0;
  bool awaited = false;
  std::vector<BoxCopy> in_flight = {};
  [[maybe_unused]] char* token = new_token();  // of this phase, and of the one before
  [[maybe_unused]] char* token_before = nullptr;
};

// For each of the blocks that may exist at a time: its barriers, by address.
std::array<std::map<const void*, Barrier>, kBlocks> barriers;

Barrier& find(const void* address, CallSite site) {
  const auto found = barriers[running_block()].find(address);
  if (found == barriers[running_block()].end()) {
    fail("a barrier in shared memory is used before its init", site);
  }
  return found->second;
}

// Calls visit(address in the matrix, offset in the box, bytes) for the box's rows in the matrix.
template <typename Visit>
void for_rows(const BoxCopy& copy, const Visit& visit) {
  const CUtensorMap& from = copy.from;
  const std::ptrdiff_t row_bytes = from.row_bytes, box_bytes = from.box_row_bytes;
  const std::ptrdiff_t begin = std::clamp<std::ptrdiff_t>(-copy.column_byte, 0, box_bytes);
  const std::ptrdiff_t end = std::clamp(row_bytes - copy.column_byte, begin, box_bytes);
  for (std::size_t r = 0; r < from.box_rows; ++r) {
    const std::ptrdiff_t row = copy.row + static_cast<std::ptrdiff_t>(r);
    if (row < 0 || row >= static_cast<std::ptrdiff_t>(from.rows) || begin == end) continue;
    visit(from.data + row * from.row_stride + copy.column_byte + begin,
          r * from.box_row_bytes + begin, end - begin);
  }
}

std::vector<unsigned char> read_box(const BoxCopy& copy) {
  std::vector<unsigned char> box(copy.from.box_rows * copy.from.box_row_bytes);
  for_rows(copy, [&](const unsigned char* from, std::size_t offset, std::size_t bytes) {
    std::memcpy(box.data() + offset, from, bytes);
  });
  return box;
}

// Calls visit(where a unit of the box goes, its offset in the box) for all units.
template <typename Visit>
void for_units(const BoxCopy& copy, const Visit& visit) {
  for (std::size_t offset = 0; offset < copy.early.size(); offset += kUnit) {
    auto address = reinterpret_cast<std::uintptr_t>(copy.to) + offset;
    if (copy.from.swizzle == CU_TENSOR_MAP_SWIZZLE_128B) address = swizzled(address);
    visit(reinterpret_cast<unsigned char*>(address), offset);
  }
}

void spoil(const BoxCopy& copy) {
  for_units(copy, [](unsigned char* to, std::size_t) { std::memset(to, 0xff, kUnit); });
}

void land(const BoxCopy& copy) {
  if (read_box(copy) != copy.early) {
    fail("what a copy of a box reads was changed in flight", copy.site);
  }
  for_units(copy, [&](unsigned char* to, std::size_t offset) {
    const auto is_spoiled = [](unsigned char byte) { return byte == 0xff; };
    if (copy.spoiled && !std::all_of(to, to + kUnit, is_spoiled)) {
      fail("what a copy of a box writes was changed in flight", copy.site);
    }
    std::memcpy(to, copy.early.data() + offset, kUnit);
  });
}

// [snippet end-phase]
// Ends the phase if everything has arrived; if there are copies, only when a thread waits for it.
void end_phase_if_complete(const void* address, Barrier& barrier, CallSite site) {
  [[maybe_unused]] const OutsideTheKernel outside;
  if (barrier.pending > 0) return;
  if (barrier.coming > barrier.expected) {
    fail("copies bring more bytes than the phase of their barrier expects", site);
  }
  if (barrier.coming < barrier.expected) return;
  if (!barrier.in_flight.empty() && !barrier.awaited) return;
  for (const BoxCopy& copy : barrier.in_flight) land(copy);
  barrier.in_flight.clear();
  barrier.pending = barrier.count;
  barrier.expected = barrier.coming = 0;
  barrier.parity ^= 1;
  barrier.awaited = false;
  barrier.token_before = barrier.token;
  barrier.token = new_token();
  wake(address);
}
// [end snippet end-phase]

}  // namespace

void init_barrier(const void* address, int count, CallSite site) {
  check_aligned(address, 8, site);
  [[maybe_unused]] const OutsideTheKernel outside;
  barriers[running_block()].insert_or_assign(address, Barrier{.count = count, .pending = count});
}

void arrive_at_barrier(const void* address, int bytes, CallSite site) {
  Barrier& barrier = find(address, site);
  if (barrier.pending == 0) fail("more threads arrive at a barrier than it counts", site);
  barrier.expected += bytes;
  --barrier.pending;
  IF_TSAN(__tsan_release(barrier.token);)
  end_phase_if_complete(address, barrier, site);
}

void wait_at_barrier(const void* address, int parity, CallSite site) {
  Barrier& barrier = find(address, site);
  if (barrier.parity == parity) {
    barrier.awaited = true;
    end_phase_if_complete(address, barrier, site);
  }
  if (barrier.parity == parity) wait_for(address, site);
  IF_TSAN(if (barrier.token_before != nullptr) __tsan_acquire(barrier.token_before);)
}

void copy_box(void* to, const CUtensorMap& from, int column, int row, const void* address,
              CallSite site) {
  Barrier& barrier = find(address, site);
  check_aligned(to, 128, site);
  BoxCopy copy{static_cast<unsigned char*>(to),
               from,
               column * static_cast<std::ptrdiff_t>(from.element_bytes),
               row,
               site,
               !runs_early(),  // before it waits, an early kernel has no shared memory
               {}};
  // To ThreadSanitizer, the thread that requests the copy reads and writes.
  IF_TSAN(for_rows(copy, [](const unsigned char* row, std::size_t, std::size_t bytes) {
            __tsan_read_range(const_cast<unsigned char*>(row), bytes);
          });)
  IF_TSAN(if (copy.spoiled) __tsan_write_range(to, from.box_rows * from.box_row_bytes);)
  IF_TSAN(__tsan_release(barrier.token);)
  [[maybe_unused]] const OutsideTheKernel outside;
  copy.early = read_box(copy);
  if (copy.spoiled) spoil(copy);
  barrier.coming += static_cast<std::ptrdiff_t>(copy.early.size());
  barrier.in_flight.push_back(std::move(copy));
  end_phase_if_complete(address, barrier, site);
}

void forget_barriers() {
  [[maybe_unused]] const OutsideTheKernel outside;
  barriers[running_block()].clear();
}

void check_no_copies_in_flight() {
  for (const auto& [address, barrier] : barriers[running_block()]) {
    if (barrier.in_flight.empty()) continue;
    fail("the block has ended with copies of boxes in flight", barrier.in_flight.front().site);
  }
}

const char* why_barriers_wait() {
  for (const auto& [address, barrier] : barriers[running_block()]) {
    if (barrier.pending == 0 && barrier.coming < barrier.expected) {
      return "deadlock: the phase of a barrier expects more bytes than copies bring";
    }
  }
  return nullptr;
}

}  // namespace specdec::emulation
