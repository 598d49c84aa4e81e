#pragma once
#include <cstddef>

// On x86-64, switching stacks takes a few instructions. Elsewhere the C library does it, 20 times
// as slowly, because it makes a system call for the signal mask.
#if !defined(__x86_64__)
#define SPECDEC_UCONTEXT
#endif
#ifdef SPECDEC_UCONTEXT
#include <ucontext.h>
#endif

namespace specdec::emulation {

// [snippet fiber]
// A function that can be suspended in the middle and resumed later: it has its own stack, which
// holds its state. Fibers take turns on one thread of the operating system. The program's original
// stack also belongs to a fiber.
class Fiber {
 public:
  static constexpr std::size_t kStackBytes = std::size_t{64} << 10;

  // Makes this the fiber that runs: the program itself.
  void adopt_host();
  // Gives the fiber a stack of kStackBytes. The first switch to it calls body(), which first calls
  // entered(), and never returns.
  void start(char* stack, void (*body)());
  void entered();

  // Resumes `next`, and returns at a switch back to this fiber. for_good: there will be none.
  // REQUIRES: this is the fiber that runs.
  void switch_to(Fiber& next, bool for_good = false);
  // [end snippet fiber]

 private:
#ifdef SPECDEC_UCONTEXT
  ucontext_t context_;
#else
  void* stack_pointer_ = nullptr;  // while others run
#endif
  char* stack_ = nullptr;  // null: the host's
  // Handles of the sanitizers.
  [[maybe_unused]] void* asan_stack_ = nullptr;
  [[maybe_unused]] void* tsan_fiber_ = nullptr;
  [[maybe_unused]] void* last_tsan_fiber_ = nullptr;
};

}  // namespace specdec::emulation
