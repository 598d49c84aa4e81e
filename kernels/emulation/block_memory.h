#pragma once
#include <cstddef>

// The memory of a block: fresh for every block. A cluster's blocks have dynamic shared memory each,
// and the static one in common.
namespace specdec::emulation {

// Reserves the address space of all stacks, as a driver reserves memory before a kernel runs. After
// that, no launch fails for lack of it, unless it is in clusters. Returns false if there is no
// room.
bool reserve_stacks();

constexpr unsigned kKernels = 3;  // that have begun, and not ended
constexpr unsigned kMostOfCluster = 8;
constexpr unsigned kBlocks = kKernels + kMostOfCluster - 1;  // that have stacks

// Maps stacks for `count` threads of one block from `first` on. Below each is a guard page, which
// faults if the stack overflows.
void map_stacks(unsigned first, unsigned count);
// The stack of a thread. REQUIRES: it is mapped.
char* stack(unsigned thread);

// Fills the running block's shared memory with NaNs. dynamic_bytes: the block's dynamic part;
// AddressSanitizer reports an access past its end.
void start_shared_memory(std::size_t dynamic_bytes);
// Of the dynamic part alone: whether it is full of NaNs, and fills it, as the running thread.
bool dynamic_memory_is_fresh(std::size_t dynamic_bytes);
void refresh_dynamic_memory(std::size_t dynamic_bytes);

// The static shared memory of all kernels of the program, and what the running block has written of
// it. 0 where the compiler gives shared variables no section (cuda_on_cpu.h).
std::size_t static_shared_bytes();
std::size_t written_static_shared_bytes();

}  // namespace specdec::emulation
