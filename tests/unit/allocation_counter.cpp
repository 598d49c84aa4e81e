#include "tests/unit/allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__has_feature)  // Clang
#if __has_feature(thread_sanitizer)
#define SPECDEC_SANITIZERS_ALLOCATOR
#include <sanitizer/allocator_interface.h>
#endif
#endif

namespace {
std::atomic<std::size_t> count{0};
}

std::size_t specdec::allocations() { return count; }

#ifdef SPECDEC_SANITIZERS_ALLOCATOR

// ThreadSanitizer has an operator new of its own, which no program may replace, and tells of each
// block that it gives.
namespace {
[[maybe_unused]] const int installed = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, std::size_t) { count++; }, [](const volatile void*) {});
}

#else

// The array forms and those that do not throw call these.
void* operator new(std::size_t bytes) {
  count++;
  if (void* block = std::malloc(bytes == 0 ? 1 : bytes)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }

#endif
