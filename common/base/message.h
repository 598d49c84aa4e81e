#pragma once
#include <exception>
#include <string>
#include <string_view>

namespace specdec {

// The text as a part of one line for people: control characters escaped, bytes that are no UTF-8
// replaced, and cut, with "..." at the end, where it would exceed `most` bytes.
std::string one_line(std::string_view text, std::size_t most = std::string::npos);

// The same for a whole message: of a very long one, the middle is cut out.
std::string as_message(std::string_view text);

// What an exception says, without the library's words around what the system says of a file.
std::string message_of(const std::exception& error);

}  // namespace specdec
