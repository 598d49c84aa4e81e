#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device_code.h"

// Copies of boxes of a matrix into shared memory by the GPU's copy engine (TMA, the "tensor memory
// accelerator" of compute capability 9.0), and barriers in shared memory, which count arrivals and
// bytes (PTX ISA, "cp.async.bulk.tensor" and "mbarrier"). One thread requests a box of some KiB
// with one instruction. emulation/shared_barriers.h says what the emulation reports. Device code.
namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {

// Whether the kernels' device code has these instructions: it is compiled for compute capability
// 9.0 or higher, and runs on such a GPU. kernel: any.
bool can_copy_boxes(const void* kernel);

constexpr int kBoxRowBytes = 128;

// A matrix in device memory, and the size of its boxes: box_rows x 128 bytes. Passed to a kernel as
// `const __grid_constant__ TensorMap`.
//
// In shared memory, a box is box_rows x 8 units of 16 bytes, without gaps. Unit u of row r is
// stored as unit u XOR r % 8 (the 128-byte swizzle): 8 rows with the same u are in different banks.
class TensorMap {
 public:
  // data: [rows, width], with rows `row_bytes` apart. REQUIRES: address and row_bytes at multiples
  // of 16, rows and width at least 1, box_rows up to 256. Throws std::runtime_error if the driver
  // refuses.
  TensorMap(const float* data, int rows, int width, std::size_t row_bytes, int box_rows);
  TensorMap(const __nv_bfloat16* data, int rows, int width, std::size_t row_bytes, int box_rows);

  const CUtensorMap& map() const { return map_; }
  __device__ const CUtensorMap* address() const { return &map_; }

 private:
  CUtensorMap map_;
};

// [snippet place-in-box]
// The offset in bytes of unit u of row r in a box. REQUIRES: the box is at a multiple of 1024.
__host__ __device__ constexpr int place_in_box(int r, int u) {
  return kBoxRowBytes * r + 16 * (u ^ (r & 7));
}
// [end snippet place-in-box]

// An instruction of compute capability 9.0. Code for older GPUs never runs it: see
// can_copy_boxes().
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define SPECDEC_ASM_9_0(...) __trap()
#else
#define SPECDEC_ASM_9_0(...) asm volatile(__VA_ARGS__)
#endif
__device__ inline unsigned address_in_shared(const void* generic) {
#ifdef SPECDEC_EMULATED
  return emulation::address_in_shared(generic);
#else
  return __cvta_generic_to_shared(generic);
#endif
}

// A barrier in shared memory. Its phases follow each other; one ends when `count` threads have
// arrived and all bytes that they expect have come.
class SharedBarrier {
 public:
  // One thread calls it, then publish_barriers(); the others use the barrier after a
  // __syncthreads().
  __device__ void init(int count) {
#ifdef SPECDEC_EMULATED
    emulation::init_barrier(&state_, count);
#else
    SPECDEC_ASM_9_0("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address_in_shared(&state_)),
                    "r"(count)
                    : "memory");
#endif
  }
  // What the thread wrote before is visible to those that wait for the phase.
  __device__ void arrive() {
#ifdef SPECDEC_EMULATED
    emulation::arrive_at_barrier(&state_, 0);
#else
    SPECDEC_ASM_9_0("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address_in_shared(&state_))
                    : "memory");
#endif
  }
  // Arrives, and makes the phase wait for the bytes of copies, which may be requested later.
  __device__ void arrive_and_expect(int bytes) {
#ifdef SPECDEC_EMULATED
    emulation::arrive_at_barrier(&state_, bytes);
#else
    SPECDEC_ASM_9_0(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address_in_shared(&state_)),
        "r"(bytes)
        : "memory");
#endif
  }
  // Returns when phase number `phase`, from 0 on, has ended. REQUIRES: the phase before has ended,
  // because the barrier knows only whether a phase's number is even.
  __device__ void wait(int phase) {
#ifdef SPECDEC_EMULATED
    emulation::wait_at_barrier(&state_, phase & 1);
#else
    unsigned has_ended = 0;
    while (has_ended == 0) {
      SPECDEC_ASM_9_0(
          "{ .reg .pred ended;\n"
          "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
          "selp.u32 %0, 1, 0, ended; }"
          : "=r"(has_ended)
          : "r"(address_in_shared(&state_)), "r"(phase & 1)
          : "memory");
    }
#endif
  }

 private:
  friend __device__ void copy_box(void* to, const TensorMap& from, int column, int row,
                                  SharedBarrier& barrier);
  std::uint64_t state_;
};

// Makes the init of barriers visible to the copy engine.
__device__ inline void publish_barriers() {
#ifndef SPECDEC_EMULATED
  SPECDEC_ASM_9_0("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

// Requests the box that begins at this row and column (an element's, not a byte's). What is outside
// the matrix is zero. The barrier's phase gets all bytes of the box. REQUIRES: `to` at a multiple
// of 1024 bytes.
__device__ inline void copy_box(void* to, const TensorMap& from, int column, int row,
                                SharedBarrier& barrier) {
#ifdef SPECDEC_EMULATED
  emulation::copy_box(to, *from.address(), column, row, &barrier.state_);
#else
  SPECDEC_ASM_9_0(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3}], [%4];" ::"r"(address_in_shared(to)),
      "l"(from.address()), "r"(column), "r"(row), "r"(address_in_shared(&barrier.state_))
      : "memory");
#endif
}
#undef SPECDEC_ASM_9_0

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
