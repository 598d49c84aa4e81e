#pragma once
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/memory.h"

namespace specdec {

// What `main` returns. kCheckFailed is for --check and its kin.
enum ExitCode { kGood = 0, kCheckFailed = 1, kBadInput = 2 };

// Parses the command line, runs `body` and returns its exit code. Whatever is thrown ends as one
// line on stderr and exit code 2; --help and --version go to stdout and are good.
template <typename Body>
int run_program(CLI::App& app, int argc, char** argv, Body&& body) {
  const auto complain = [&](const std::string& message) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), message);
    return kBadInput;
  };
  try {
    app.parse(argc, argv);
    return body();
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return complain(fmt::format("{} (--help lists the options)", error.what()));
  } catch (const std::bad_alloc& error) {
    return complain(
        fmt::format("out of memory for activations and logits: {}; a shorter prompt, "
                    "--spec-length or --max-batch takes less",
                    memory_left(error)));
  } catch (const std::exception& error) {
    return complain(error.what());
  }
}

// Whether to colour what goes to this stream: only on a terminal, and not where NO_COLOR is set
// (https://no-color.org).
inline bool use_colour(std::FILE* stream) {
  const char* no_color = std::getenv("NO_COLOR");
  return ::isatty(::fileno(stream)) != 0 && (no_color == nullptr || *no_color == '\0');
}

}  // namespace specdec
