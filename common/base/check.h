#pragma once
#include <fmt/core.h>

namespace specdec {

[[noreturn]] void check_failed_with(const char* file, int line, const char* condition,
                                    fmt::string_view format, fmt::format_args args);

// Erases the arguments' types, so that callers do not compile the formatting.
template <typename... Args>
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               fmt::format_string<Args...> format, Args&&... args) {
  check_failed_with(file, line, condition, format, fmt::make_format_args(args...));
}

}  // namespace specdec

// Aborts when an invariant of our own code does not hold. The message continues after the word
// "expected": "one row, not {}", "page {} to be in use". Active in every build type, because a
// wrong result costs more than a comparison. Bad input does not break an invariant: see error.h.
#define SPECDEC_CHECK(condition, ...)                                       \
  do {                                                                      \
    if (!(condition)) {                                                     \
      ::specdec::check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__); \
    }                                                                       \
  } while (false)
