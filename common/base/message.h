#pragma once
#include <exception>
#include <string>
#include <string_view>

namespace specdec {

// The text as part of a one-line message: control characters escaped, bytes that are not UTF-8
// replaced, and cut, with "..." at the end, if it would exceed `most` bytes.
std::string one_line(std::string_view text, std::size_t most = std::string::npos);

// The same for a whole message: of a very long one, the middle is cut out.
std::string as_message(std::string_view text);

// The message of an exception; for a file, the path and the system's reason without the library's
// words.
std::string message_of(const std::exception& error);

}  // namespace specdec
