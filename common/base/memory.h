#pragma once
#include <new>
#include <string>

namespace specdec {

// "6.4 GB". In floating point, because a size that does not fit an integer is one to report.
std::string readable_bytes(double bytes);

// What is left of the memory that has no room: "there is not enough memory", of a GPU with numbers.
std::string memory_left(const std::bad_alloc& error);

}  // namespace specdec
