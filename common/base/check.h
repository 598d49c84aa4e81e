#pragma once
#include <fmt/core.h>

namespace specdec {

[[noreturn]] void check_failed_with(const char* file, int line, const char* condition,
                                    fmt::string_view format, fmt::format_args args);

// The arguments' types end here, so that no caller compiles the formatting.
template <typename... Args>
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               fmt::format_string<Args...> format, Args&&... args) {
  check_failed_with(file, line, condition, format, fmt::make_format_args(args...));
}

}  // namespace specdec

// Aborts when an invariant of our own code does not hold. The message continues
// after the word "expected": "one row, not {}", "page {} to be in use". On in every build type: a
// wrong result costs more than a comparison. Bad input is not an invariant: see error.h.
#define SPECDEC_CHECK(condition, ...)                                       \
  do {                                                                      \
    if (!(condition)) {                                                     \
      ::specdec::check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__); \
    }                                                                       \
  } while (false)
