#pragma once
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace specdec {

// Writes a message to stderr. If stderr is closed or its disk is full, the message is lost, and
// that is all: fmt::print() would throw.
void say_text(std::string_view text);

template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say_text(fmt::format(format, std::forward<Args>(args)...));
}

// Flushes stdout. Throws std::system_error if it cannot be written, as fmt::print() does;
// run_program() tells the user.
void flush_stdout();

}  // namespace specdec
