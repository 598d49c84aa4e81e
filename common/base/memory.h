#pragma once
#include <new>
#include <string>

namespace specdec {

// "6.4 GB". In floating point, because messages report sizes that do not fit an integer.
std::string readable_bytes(double bytes);

// "there is not enough memory"; for a GPU, how much is wanted, free and installed.
std::string memory_left(const std::bad_alloc& error);

}  // namespace specdec
