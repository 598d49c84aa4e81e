#pragma once
#include <cstddef>

// Switching stacks takes eight instructions on x86-64; elsewhere the C library does it, 20 times as
// slowly, because it asks the kernel for the signal mask.
#if !defined(__x86_64__)
#define SPECDEC_UCONTEXT
#endif
#ifdef SPECDEC_UCONTEXT
#include <ucontext.h>
#endif

namespace specdec::emulation {

// [snippet fiber]
// A function that can be left in the middle and gone on with later: it has a stack of its own, and
// remembers how far it has got. Fibers take turns on one thread of the operating system; the stack
// that the program began on belongs to a fiber, too.
class Fiber {
 public:
  static constexpr std::size_t kStackBytes = std::size_t{64} << 10;

  // Makes this the fiber that runs: the program itself.
  void adopt_host();
  // Gives it a stack, kStackBytes long; the first switch to it calls body(), which calls entered()
  // before all else, and never returns.
  void start(char* stack, void (*body)());
  void entered();

  // REQUIRES: this is the fiber that runs. Goes on with `next`, and returns when somebody switches
  // back; for_good: nobody will.
  void switch_to(Fiber& next, bool for_good = false);
  // [end snippet fiber]

 private:
#ifdef SPECDEC_UCONTEXT
  ucontext_t context_;
#else
  void* stack_pointer_ = nullptr;  // while others run
#endif
  char* stack_ = nullptr;  // null: the host's
  // By these the sanitizers know it.
  [[maybe_unused]] void* asan_stack_ = nullptr;
  [[maybe_unused]] void* tsan_fiber_ = nullptr;
  [[maybe_unused]] void* last_tsan_fiber_ = nullptr;
};

}  // namespace specdec::emulation
