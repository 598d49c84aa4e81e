#pragma once
#include <cstddef>

namespace specdec {

// The number of calls of operator new in this program so far (under ThreadSanitizer, of malloc as
// well). allocation_counter.cpp replaces operator new in the programs that link it.
std::size_t allocations();

}  // namespace specdec
