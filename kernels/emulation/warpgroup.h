#pragma once
#include "kernels/emulation/tensor_cores.h"

// Products of a warpgroup: wgmma.mma_async with a fragment of A in registers, and B in shared
// memory (PTX ISA, "Asynchronous warpgroup level matrix instructions"; compute capability 9.0).
//
// Products run as late as they may: when all four warps wait for them. From its start until then, a
// product's sums are NaN. The addresses of registers stand for the registers.
//
// Reports registers of A that were written after the last fence, or without one; registers of A,
// sums or weights that change in flight; lanes or warps that start different products; a wait that
// a warp does not reach; a descriptor that does not name a box with the 128-byte swizzle; products
// in flight when the block ends. Does not report sums that were used after the last fence.
namespace specdec::emulation {

// How the tensor cores add in these products. NVIDIA says neither that it is as in mma.sync nor
// that it is not.
TensorCoreModel& warpgroup_model();

// The address in the block's dynamic shared memory, which fits into a descriptor.
unsigned address_in_shared(const void* address, SPECDEC_CALL_SITE);

// wgmma.fence: the `count` registers of A may be read by products.
void fence_registers(const unsigned* registers, int count, SPECDEC_CALL_SITE);
// Starts sums = A B, or sums += A B if `adds`. a[4], sums[outputs / 2]: a lane's registers, as in
// PTX (kernels/cuda/matmul/warpgroup.h). weights: a descriptor.
void start_product(const unsigned* a, std::uint64_t weights, int outputs, bool adds, float* sums,
                   SPECDEC_CALL_SITE);
// wgmma.commit_group and wgmma.wait_group 0: returns when all products so far are done.
void await_products(SPECDEC_CALL_SITE);

// For the scheduler, as in shared_barriers.h: a block begins, or ends; why no thread can run.
void forget_products();
void check_no_products_in_flight();
const char* why_warpgroups_wait();

}  // namespace specdec::emulation
