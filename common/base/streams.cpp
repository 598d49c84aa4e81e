#include "common/base/streams.h"

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace specdec {

void say_text(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stderr) < text.size()) std::clearerr(stderr);
}

void flush_stdout() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw std::system_error(errno, std::generic_category(), "stdout");
}

}  // namespace specdec
