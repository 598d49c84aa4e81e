#pragma once
#include <cstddef>

// The memory that every block starts with anew.
namespace specdec::emulation {

// Takes the address space of all stacks, as a device's driver takes what it needs before a kernel
// runs: from then on, a launch can no longer fail for lack of it. False: there is no room.
bool reserve_stacks();

// Maps stacks for so many threads, two blocks' at most; below each, a page that faults when the
// stack overflows.
void map_stacks(unsigned first, unsigned count);
// That of a thread. REQUIRES: it is mapped.
char* stack(unsigned thread);

// Fills shared memory with NaNs; of the dynamic part, so many bytes are the block's: under
// AddressSanitizer, what follows is not to be touched.
void start_shared_memory(std::size_t dynamic_bytes);

}  // namespace specdec::emulation
