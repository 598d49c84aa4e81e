#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "common/base/error.h"
#include "common/base/message.h"
#include "common/base/streams.h"

namespace specdec {

void check_failed_with(const char* file, int line, const char* condition, fmt::string_view format,
                       fmt::format_args args) {
  say("{}:{}: broken invariant: {} does not hold; expected {}\n", file, line, condition,
      fmt::vformat(format, args));
  std::abort();
}

void fail_with(fmt::string_view format, fmt::format_args args) {
  throw Error(as_message(fmt::vformat(format, args)));
}

}  // namespace specdec
