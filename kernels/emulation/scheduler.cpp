// scheduler.cpp -- runs the threads of a block as fibers (stacks that take turns on one CPU).
// Compile with -fno-sanitize=thread: to ThreadSanitizer the scheduler must be invisible.
#include <algorithm>
#include <cstdio>
#include <random>

#include <sys/mman.h>
#include <ucontext.h>

#include "kernels/emulation/cuda_on_cpu.h"
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define ASAN(...) __VA_ARGS__
#else
#define ASAN(...)
#endif
#ifdef EMU_TSAN  // set by the build together with -fsanitize=thread for all other files
#include <sanitizer/tsan_interface.h>
extern "C" void __tsan_java_init(unsigned long, unsigned long);
extern "C" void __tsan_java_alloc(unsigned long, unsigned long);
#define TSAN(...) __VA_ARGS__
#else
#define TSAN(...)
#endif
#if defined(__x86_64__) && !defined(EMU_UCONTEXT)
#define FAST_SWITCH 1
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
extern "C" char __start_cuda_shared[] __attribute__((weak)),
    __stop_cuda_shared[] __attribute__((weak));

namespace specdec::emulation {
enum State { ready, at_block, at_warp, done };
struct Thread {
  uint3 idx;
  State state;
  Where where;  // the collective it reached last
  unsigned mask;
  uint64_t in, out;
  int src;  // warp collective in progress
  char* stack;
  ucontext_t ctx;
  void *sp, *asan, *tsan, *old_tsan;  // what switching stacks has to remember
};
struct Warp {
  unsigned arrived, exited, token;
};
static Thread threads[1024], host;  // the host is a fiber, too
static Warp warps[32];
static char* stacks;
static unsigned order[1024];                  // threads get their turns in this order
static unsigned n, live, arrived, self, pos;  // self == order[pos]: the thread that runs now
// For ThreadSanitizer: the address of a token stands for one instance of a barrier.
[[maybe_unused]] static char tokens[1 << 16], end_token;
static uint16_t block_token, next_token;
static void (*call)(void*);
static void* call_arg;  // the kernel with its arguments
constexpr size_t stack_bytes = 64 << 10, dynamic_max = 227 << 10;
alignas(1024) static char dynamic_memory[dynamic_max];

[[noreturn]] static void fail(const char* what, Where w) {
  std::fprintf(stderr,
               "%s:%d: CUDA emulation: %s\n  thread (%u,%u,%u) of block (%u,%u,%u); the threads of "
               "this block:\n",
               w.file, w.line, what, threadIdx.x, threadIdx.y, threadIdx.z, blockIdx.x, blockIdx.y,
               blockIdx.z);
  const char* name[] = {"running since", "at block barrier", "at warp collective",
                        "exited, last at"};
  for (unsigned i = 0, j; i < n; i = j) {
    for (j = i; j < n && threads[j].state == threads[i].state &&
                threads[j].where.line == threads[i].where.line;)
      j++;
    std::fprintf(stderr, "  %4u..%-4u %s %s:%d\n", i, j - 1, name[threads[i].state],
                 threads[i].where.file, threads[i].where.line);
  }
  std::abort();
}

// ---------- switching stacks ----------
#ifdef FAST_SWITCH  // 10 ns; swapcontext() takes 200 ns because it saves the signal mask
extern "C" void emu_switch(void** save_sp, void* new_sp);
asm(R"(emu_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp, (%rdi); movq %rsi, %rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp; ret)");
#endif
ASAN(static const void* host_stack; static size_t host_stack_bytes;)
static void resumed([[maybe_unused]] Thread& t) {
  ASAN(const void* b; size_t s; __sanitizer_finish_switch_fiber(t.asan, &b, &s);
       if (!host_stack) host_stack = b, host_stack_bytes = s;)
}
static void switch_to(Thread& from, Thread& to) {
  ASAN(__sanitizer_start_switch_fiber(from.state == done ? nullptr : &from.asan,
                                      &to == &host ? host_stack : to.stack,
                                      &to == &host ? host_stack_bytes : stack_bytes);)
  TSAN(__tsan_switch_to_fiber(to.tsan, __tsan_switch_to_fiber_no_sync);)
#ifdef FAST_SWITCH
  emu_switch(&from.sp, to.sp);
#else
  swapcontext(&from.ctx, &to.ctx);
#endif
  resumed(from);
}
// The running thread gives the CPU to the next one that can run; to the host when all have exited.
static void yield() {
  Thread& me = threads[self];
  if (live == 0) return switch_to(me, host);
  for (unsigned k = 0; k < n; k++) {
    if (++pos == n) pos = 0;
    Thread& t = threads[order[pos]];
    if (t.state != ready) continue;
    self = order[pos];
    threadIdx = t.idx;
    return switch_to(me, t);
  }
  fail("deadlock: every thread of the block waits", me.where);
}

// ---------- barriers ----------
static void release_block() {
  arrived = 0;
  block_token = next_token++;
  for (unsigned i = 0; i < n; i++)
    if (threads[i].state == at_block) threads[i].state = ready;
}
void sync_block(Where w) {
  Thread& me = threads[self];
  me.where = w;
  for (unsigned i = 0; arrived && i < n; i++)
    if (threads[i].state == at_block) {
      if (threads[i].where.line != w.line) fail("threads wait at different __syncthreads()", w);
      break;
    }
  TSAN(char* hb = &tokens[block_token]; __tsan_release(hb);)  // what I did before the barrier ...
  if (++arrived == live)
    release_block();
  else {
    me.state = at_block;
    yield();
  }
  TSAN(__tsan_acquire(hb);)  // ... everybody may see after it
}
// The one warp primitive.  Each lane of `mask` deposits `in` and names the lane whose value it
// wants (src), or -1 for the vote of all lanes.  The last lane to arrive answers all of them.
uint64_t warp_collective(unsigned mask, uint64_t in, int src, [[maybe_unused]] bool orders_memory,
                         Where w) {
  Thread& me = threads[self];
  unsigned lane = self % 32, first = self - lane;
  Warp& warp = warps[self / 32];
  me.where = w;
  me.mask = mask;
  me.in = in;
  me.src = src;
  if (!(mask >> lane & 1)) fail("the calling lane is not in the mask", w);
  if (mask & warp.exited) fail("the mask names a lane that has exited", w);
  if (n - first < 32 && mask >> (n - first))
    fail("the mask names lanes that the block does not have", w);
  if (src >= 0 && !(mask >> src & 1)) fail("reads from a lane outside the mask", w);
  TSAN(char* hb = &tokens[warp.token];
       if (orders_memory) __tsan_release(hb);)  // shuffles order nothing
  warp.arrived |= 1u << lane;
  if ((warp.arrived & mask) != mask) {
    me.state = at_warp;
    yield();
  } else {
    uint64_t vote = 0;
    for (int l = 0; l < 32; l++)
      if (mask >> l & 1) {
        Thread& t = threads[first + l];
        if (t.mask != mask || t.where.line != w.line)
          fail("lanes meet at different warp collectives", w);
        vote |= uint64_t(t.in != 0) << l;
      }
    for (int l = 0; l < 32; l++)
      if (mask >> l & 1) {
        Thread& t = threads[first + l];
        t.out = t.src < 0 ? vote : threads[first + t.src].in;
        t.state = ready;
      }
    warp.arrived &= ~mask;
    warp.token = next_token++;
  }
  TSAN(if (orders_memory) __tsan_acquire(hb);)
  return me.out;
}
int lane() { return self % 32; }
void* dynamic_shared_memory() { return dynamic_memory; }

// ---------- running a grid ----------
static void fiber_main() {
  resumed(threads[self]);
  call(call_arg);
  TSAN(__tsan_release(&end_token);)
  threads[self].state = done;
  warps[self / 32].exited |= 1u << self % 32;
  if (--live && arrived == live)
    release_block();  // barriers count the threads that have not exited
  yield();            // never returns
}
static void map_stacks(unsigned count) {  // stack i is at stacks + i * stack_bytes
  if (!stacks)
    stacks = static_cast<char*>(mmap(nullptr, 1024 * stack_bytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  TSAN(mmap(stacks, count * stack_bytes, PROT_READ | PROT_WRITE,
            MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
       return;)
  for (static unsigned guarded = 0; guarded < count; guarded++)
    mprotect(stacks + guarded * stack_bytes, 4096, PROT_NONE);  // overflow faults
}
static void prepare_fiber(Thread& t) {  // the next switch_to(t) starts fiber_main()
  t.stack = stacks + (&t - threads) * stack_bytes;
#ifdef FAST_SWITCH
  void** top = reinterpret_cast<void**>(t.stack + stack_bytes);
  top[-1] = nullptr;
  top[-2] = reinterpret_cast<void*>(+fiber_main);
  t.sp = top - 8;
#else
  if (!t.ctx.uc_stack.ss_sp) getcontext(&t.ctx);
  t.ctx.uc_stack.ss_sp = t.stack;
  t.ctx.uc_stack.ss_size = stack_bytes;
  makecontext(&t.ctx, fiber_main, 0);
#endif
  ASAN(t.asan = nullptr; __asan_unpoison_memory_region(t.stack + 4096, stack_bytes - 4096);)
  // a new identity in every block: ThreadSanitizer shall not think that blocks run one after
  // another
  TSAN(if (t.old_tsan) __tsan_destroy_fiber(t.old_tsan); t.old_tsan = t.tsan;
       t.tsan = __tsan_create_fiber(0);)
}
static void fresh(char* p, size_t bytes) {  // uninitialised memory: no history for TSan, and NaNs
  if (!bytes) return;
  TSAN(unsigned long a = reinterpret_cast<unsigned long>(p) & ~7ul;
       __tsan_java_alloc(a, (bytes + 15) & ~7ul);)
  std::memset(p, 255, bytes);
}
static void run_block(size_t shared_bytes) {
  static std::mt19937 rng(1);
  const char* mode = std::getenv("EMU_ORDER");  // forward (default), reverse or random
  for (unsigned i = 0; i < n; i++) order[i] = mode && !std::strcmp(mode, "reverse") ? n - 1 - i : i;
  if (mode && !std::strcmp(mode, "random"))
    for (unsigned i = n; i > 1; i--) std::swap(order[i - 1], order[rng() % i]);
  fresh(__start_cuda_shared, __stop_cuda_shared - __start_cuda_shared);
  ASAN(__asan_unpoison_memory_region(dynamic_memory, dynamic_max);)
  fresh(dynamic_memory, shared_bytes);
  ASAN(__asan_poison_memory_region(dynamic_memory + shared_bytes, dynamic_max - shared_bytes);)
  map_stacks(n);
  live = n;
  arrived = 0;
  block_token = next_token++;
  for (Warp& w : warps) w = {0, 0, next_token++};
  for (unsigned i = 0; i < n; i++) {
    Thread& t = threads[i];
    t.state = ready;
    t.where = {"kernel entry", 0};
    t.idx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
    prepare_fiber(t);
  }
  pos = 0;
  self = order[0];
  threadIdx = threads[self].idx;
  switch_to(host, threads[self]);
}
void run_grid(dim3 grid, dim3 block, size_t shared_bytes, void (*fn)(void*), void* arg) {
  n = block.x * block.y * block.z;
  if (n == 0 || n > 1024 || !grid.x || !grid.y || !grid.z || grid.y > 65535 || grid.z > 65535 ||
      shared_bytes > dynamic_max) {
    std::fprintf(stderr,
                 "invalid launch: grid (%u,%u,%u), block (%u,%u,%u), %zu bytes of shared memory\n",
                 grid.x, grid.y, grid.z, block.x, block.y, block.z, shared_bytes);
    std::abort();
  }
  call = fn;
  call_arg = arg;
  gridDim = grid;
  blockDim = block;
  TSAN(host.tsan = __tsan_get_current_fiber();
       static bool once = (__tsan_java_init(std::min((unsigned long)__start_cuda_shared & ~7ul,
                                                     (unsigned long)dynamic_memory),
                                            1ul << 30),
                           true);
       (void)once;)
  for (unsigned z = 0; z < grid.z; z++)
    for (unsigned y = 0; y < grid.y; y++)
      for (unsigned x = 0; x < grid.x; x++) {
        blockIdx = {x, y, z};
        run_block(shared_bytes);
      }
  TSAN(__tsan_acquire(&end_token);)  // the host sees all that the kernel did
}
}  // namespace specdec::emulation
