#pragma once
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace specdec {

// Says something to people, on stderr. Where that is closed or its disk is full they do not hear
// it, and nothing else happens: fmt::print() would throw.
void say_text(std::string_view text);

template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say_text(fmt::format(format, std::forward<Args>(args)...));
}

// Sends on what was printed to stdout. Throws std::system_error where it cannot be written, as
// fmt::print() does; run_program() tells the user.
void flush_stdout();

}  // namespace specdec
