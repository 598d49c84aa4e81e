#pragma once
#include <cstdio>
#include <stdexcept>
#include <string>

namespace specdec {

// Stands where a task is yet to be done: says so on stderr, and throws. Replace the whole call.
[[noreturn]] inline void not_done(const std::string& task) {
  std::fprintf(stderr, "%s\n", task.c_str());
  throw std::runtime_error(task);
}

}  // namespace specdec
