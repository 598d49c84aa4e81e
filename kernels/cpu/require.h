#pragma once
#include <cstdio>
#include <cstdlib>

namespace specdec::cpu {

// Aborts if a caller breaks an operation's contract (ops.h), and prints what was expected.
inline void require(bool holds, const char* expected,
                    const char* operation = __builtin_FUNCTION()) {
  if (holds) return;
  std::fprintf(stderr, "kernels/cpu: %s: expected %s\n", operation, expected);
  std::abort();
}

}  // namespace specdec::cpu
