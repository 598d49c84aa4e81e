#pragma once
#include <stdexcept>

#include <fmt/core.h>

namespace specdec {

// A mistake outside our code: a file, an option, a machine without a GPU. what() is one line that
// says what is wrong, where, and what to do about it. `main` prints it and exits with code 2. Our
// own mistakes are not Errors: they abort (see check.h).
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] void fail_with(fmt::string_view format, fmt::format_args args);

// Throws an Error with a formatted message.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  fail_with(format, fmt::make_format_args(args...));
}

}  // namespace specdec
