#include "kernels/emulation/block_memory.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <sys/mman.h>

#include "kernels/emulation/fibers.h"
#include "kernels/emulation/runtime_calls.h"
#include "kernels/emulation/sanitizers.h"
#include "kernels/emulation/scheduler.h"

// Where the linker puts the __shared__ variables; absent if g++ compiled them.
extern "C" char __start_cuda_shared[] __attribute__((weak));
extern "C" char __stop_cuda_shared[] __attribute__((weak));

namespace specdec::emulation {
namespace {

constexpr std::size_t kPage = 4096;

alignas(1024) char dynamic_memories[kMostOfCluster][kSharedBytesOptin];  // by rank
static_assert(kSharedBytesOptin % 1024 == 0);
std::array<char*, kBlocks> stacks{};  // of each block; null: not reserved

// Null if there is no room.
char* map(char* at, std::size_t bytes, int flags) {
  void* memory = mmap(at, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

bool reserve(unsigned block) {
  if (stacks[block] == nullptr) stacks[block] = map(nullptr, kMaxThreads * Fiber::kStackBytes, 0);
  return stacks[block] != nullptr;
}

// Makes memory fresh: fills it with NaNs, and makes ThreadSanitizer forget earlier accesses. Its
// only call for that is meant for the heap of a Java virtual machine.
void start_anew(char* begin, std::size_t bytes) {
  if (bytes == 0) return;
  IF_TSAN(static const bool once =
              (__tsan_java_init(std::min(reinterpret_cast<std::uintptr_t>(__start_cuda_shared),
                                         reinterpret_cast<std::uintptr_t>(dynamic_memories)) &
                                    ~std::uintptr_t{7},
                                1ul << 30),
               true);
          static_cast<void>(once);
          __tsan_java_alloc(reinterpret_cast<std::uintptr_t>(begin) & ~std::uintptr_t{7},
                            (bytes + 15) & ~std::size_t{7});)
  std::memset(begin, 0xff, bytes);
}

}  // namespace

char* stack(unsigned thread) {
  return stacks[thread / kMaxThreads] + thread % kMaxThreads * Fiber::kStackBytes;
}

bool reserve_stacks() {
  for (unsigned block = 0; block < kKernels; ++block) {
    if (!reserve(block)) return false;
  }
  return true;
}

void map_stacks(unsigned first, unsigned count) {
  if (!reserve(first / kMaxThreads)) {
    std::perror("CUDA emulation: no memory for the threads' stacks");
    std::abort();
  }
  // Mapping a stack again makes ThreadSanitizer forget it, but would also remove its guard page.
  IF_TSAN(map(stack(first), count * Fiber::kStackBytes, MAP_FIXED); return;)
  static std::array<bool, kBlocks * kMaxThreads> guarded;
  for (unsigned i = first; i < first + count; ++i) {
    if (!std::exchange(guarded[i], true)) mprotect(stack(i), kPage, PROT_NONE);
  }
}

void start_shared_memory(std::size_t dynamic_bytes) {
  start_anew(__start_cuda_shared, __stop_cuda_shared - __start_cuda_shared);
  auto& memory = dynamic_memories[rank_in_cluster()];
  IF_ASAN(__asan_unpoison_memory_region(memory, sizeof memory);)
  start_anew(memory, dynamic_bytes);
  IF_ASAN(__asan_poison_memory_region(memory + dynamic_bytes, sizeof memory - dynamic_bytes);)
}

bool dynamic_memory_is_fresh(std::size_t dynamic_bytes) {
  const char* const memory = dynamic_memories[rank_in_cluster()];
  return std::all_of(memory, memory + dynamic_bytes, [](char byte) { return byte == '\xff'; });
}
void refresh_dynamic_memory(std::size_t dynamic_bytes) {
  std::memset(dynamic_memories[rank_in_cluster()], 0xff, dynamic_bytes);
}

std::size_t static_shared_bytes() { return __stop_cuda_shared - __start_cuda_shared; }

std::size_t written_static_shared_bytes() {
  std::size_t written = 0;
  std::uint32_t word;
  for (std::size_t at = 0; at + sizeof word <= static_shared_bytes(); at += sizeof word) {
    std::memcpy(&word, __start_cuda_shared + at, sizeof word);
    if (word != 0xffffffffu) written += sizeof word;
  }
  return written;
}

void* dynamic_shared_memory() { return dynamic_memories[rank_in_cluster()]; }
void* in_block(unsigned rank, const void* address, CallSite site) {
  if (rank >= blocks_of_cluster()) fail("the cluster has no block of this rank", site);
  const std::size_t offset =
      static_cast<const char*>(address) - dynamic_memories[rank_in_cluster()];
  if (offset >= kSharedBytesOptin) {
    fail("only dynamic shared memory of the block itself can be mapped to another one", site);
  }
  return dynamic_memories[rank] + offset;
}

}  // namespace specdec::emulation
