#pragma once
#include <cstdio>
#include <cstdlib>

#include <unistd.h>

namespace specdec {

// Whether to colour output to this stream: only on a terminal, and not if NO_COLOR is set
// (https://no-color.org).
inline bool use_colour(std::FILE* stream) {
  const char* no_color = std::getenv("NO_COLOR");
  return ::isatty(::fileno(stream)) != 0 && (no_color == nullptr || *no_color == '\0');
}

}  // namespace specdec
