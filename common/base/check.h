#pragma once
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

namespace specdec {

[[noreturn]] inline void check_failed(const char* file, int line, const char* condition,
                                      const std::string& expected) {
  fmt::print(stderr, "{}:{}: check failed: {}: {}\n", file, line, condition, expected);
  std::abort();
}

}  // namespace specdec

// Aborts when an invariant of our own code does not hold; the message says what was expected.
// On in every build type: a wrong result costs more than a comparison. Bad input is not an
// invariant: see error.h.
#define SPECDEC_CHECK(condition, ...)                                                    \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      ::specdec::check_failed(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
    }                                                                                    \
  } while (false)
