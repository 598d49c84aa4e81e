#include "common/base/program.h"

#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "common/base/memory.h"

namespace specdec {

int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
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

}  // namespace specdec
