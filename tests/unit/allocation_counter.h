#pragma once
#include <cstddef>

namespace specdec {

// How often this program has called operator new (under ThreadSanitizer, malloc as well). Programs
// that link allocation_counter.cpp replace it, for tests of what must not allocate.
std::size_t allocations();

}  // namespace specdec
