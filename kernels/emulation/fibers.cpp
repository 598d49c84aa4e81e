#include "kernels/emulation/fibers.h"

#include <cstdint>

#include "kernels/emulation/sanitizers.h"

namespace specdec::emulation {
namespace {

// The host's stack, which AddressSanitizer reports at the first switch away from it.
IF_ASAN(const void* host_stack = nullptr; std::size_t host_stack_bytes = 0;)

}  // namespace

#ifndef SPECDEC_UCONTEXT
// [snippet switch-stacks]
// Saves the registers that a function must preserve on the running stack, and the stack pointer in
// *save. Then restores those of the other stack, and returns to where it was left.
extern "C" void specdec_switch_stacks(void** save, void* stack_pointer);
asm(R"(
.text
.globl specdec_switch_stacks
.type specdec_switch_stacks, @function
specdec_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size specdec_switch_stacks, . - specdec_switch_stacks
)");
// [end snippet switch-stacks]
#endif

void Fiber::adopt_host() { IF_TSAN(tsan_fiber_ = __tsan_get_current_fiber();) }

void Fiber::start(char* stack, void (*body)()) {
  stack_ = stack;
  // The stacks begin at different lines of a page. Otherwise the same variable of a warp's 32
  // threads would be in the same few lines of the CPU's cache, and never stay there.
  const std::size_t bytes =
      kStackBytes - reinterpret_cast<std::uintptr_t>(stack) / kStackBytes % 32 * 128;
#ifdef SPECDEC_UCONTEXT
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack;
  context_.uc_stack.ss_size = bytes;
  makecontext(&context_, body, 0);
#else
  // The stack looks as if body() had just switched away: it has the address to return to, and six
  // registers. Above them is a null return address, which ends a debugger's backtrace.
  void** top = reinterpret_cast<void**>(stack + bytes);
  top[-1] = nullptr;
  top[-2] = reinterpret_cast<void*>(body);
  stack_pointer_ = top - 8;
#endif
  IF_ASAN(asan_stack_ = nullptr; __asan_unpoison_memory_region(stack, kStackBytes);)
  // A restarted fiber is a new thread to ThreadSanitizer, because on a GPU blocks are not ordered.
  // The previous one is kept for its reports.
  IF_TSAN(if (last_tsan_fiber_ != nullptr) __tsan_destroy_fiber(last_tsan_fiber_);
          last_tsan_fiber_ = tsan_fiber_; tsan_fiber_ = __tsan_create_fiber(0);)
}

void Fiber::entered() {
  IF_ASAN(const void* stack = nullptr; std::size_t bytes = 0;
          __sanitizer_finish_switch_fiber(asan_stack_, &stack, &bytes);
          if (host_stack == nullptr) { host_stack = stack, host_stack_bytes = bytes; })
}

void Fiber::switch_to(Fiber& next, [[maybe_unused]] bool for_good) {
  IF_ASAN(__sanitizer_start_switch_fiber(for_good ? nullptr : &asan_stack_,
                                         next.stack_ ? next.stack_ : host_stack,
                                         next.stack_ ? kStackBytes : host_stack_bytes);)
  IF_TSAN(__tsan_switch_to_fiber(next.tsan_fiber_, __tsan_switch_to_fiber_no_sync);)
#ifdef SPECDEC_UCONTEXT
  swapcontext(&context_, &next.context_);
#else
  specdec_switch_stacks(&stack_pointer_, next.stack_pointer_);
#endif
  entered();
}

}  // namespace specdec::emulation
