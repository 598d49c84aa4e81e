// The only file of the programs that includes CLI11, which takes seconds to compile.
#include "stages/programs/run/command_line.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <span>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "common/base/error.h"
#include "common/base/memory.h"
#include "common/base/message.h"
#include "common/base/streams.h"
#include "stages/programs/run/process.h"

namespace specdec {
namespace {

// Adds an option to CLI11.
class OptionAdder {
 public:
  OptionAdder(CLI::App& app, const Option& option, int stage)
      : app_(app), option_(option), stage_(stage), name_(option.name()), help_(option.help) {
    if (const auto* integer = std::get_if<Integer>(&option.value)) {
      constexpr int kWorthKnowing = 1 << 20;  // larger limits only catch nonsense
      const IntegerRange& range = integer->range;
      if (range.highest <= kWorthKnowing) {
        help_ += fmt::format(", {} to {}", range.lowest, range.highest);
      }
    }
    if (!option.traits.otherwise.empty()) {  // above a list, if there is one
      const auto words = fmt::format(" (default: {})", option.traits.otherwise);
      help_.insert(std::min(help_.find('\n'), help_.size()), words);
    }
  }

  void add() const {
    CLI::Option* added = std::visit(*this, option_.value);
    if (!option_.value_name().empty()) added->type_name(std::string(option_.value_name()));
  }

  CLI::Option* operator()(bool* flag) const { return app_.add_flag(name_, *flag, help_); }

  CLI::Option* operator()(const Integer& value) const {
    return with_default(*value.number, add_parsed());
  }

  CLI::Option* operator()(const IntegerOrAuto& value) const {
    return with_default(*value.number, add_parsed());
  }

  CLI::Option* operator()(std::uint64_t* value) const { return with_default(*value, add_parsed()); }

  CLI::Option* operator()(const Number& value) const {
    return with_default(*value.number, add_parsed());
  }

  CLI::Option* operator()(const OptionalNumber&) const { return add_parsed(); }

  CLI::Option* operator()(std::string* value) const { return with_default(*value, add_parsed()); }

  CLI::Option* operator()(const GivenText& value) const {
    const auto set = [value](const std::string& text) {
      *value.text = text;
      *value.given = true;
    };
    return with_default(*value.text, app_.add_option_function<std::string>(name_, set, help_));
  }

  CLI::Option* operator()(std::vector<std::string>* value) const {
    return app_.add_option(name_, *value, help_)
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }

  CLI::Option* operator()(const Several& value) const {
    const auto set = [&option = option_, stage = stage_](const std::vector<std::string>& texts) {
      set_from_texts(option, stage, texts);
    };
    CLI::Option* added = app_.add_option_function<std::vector<std::string>>(name_, set, help_)
                             ->expected(1)
                             ->allow_extra_args(false)
                             ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    return with_default(*value.first, added);
  }

  CLI::Option* operator()(std::vector<TokenId>*) const { return add_parsed(); }

  CLI::Option* operator()(const OneOf& value) const {
    std::vector<std::string> names;  // names of later stages get a message of their own
    for (const Named& choice : value.choices) {
      if (choice.since <= stage_ && stage_ <= choice.last) names.emplace_back(choice.name);
    }
    const auto of_this_stage = [&option = option_, stage = stage_](const std::string& name) {
      const std::string why = why_no_value(option, stage, option.name(), name);
      if (!why.empty()) fail("{}", why);
      return std::string();
    };
    CLI::Option* added = add_parsed()->check(of_this_stage)->check(CLI::IsMember(names));
    return with_default(value.choices[value.chosen].name, added);
  }

 private:
  CLI::Option* add_parsed() const {
    const auto set = [&option = option_, stage = stage_](const std::string& text) {
      set_from_text(option, stage, text);
    };
    return app_.add_option_function<std::string>(name_, set, help_);
  }

  // Shows the default, unless the help has better words for it.
  CLI::Option* with_default(const auto& value, CLI::Option* added) const {
    if (option_.traits.otherwise.empty()) added->default_str(fmt::format("{}", value));
    return added;
  }

  CLI::App& app_;
  const Option& option_;
  int stage_;
  std::string name_, help_;
};

// Adds the options that it excludes or needs, as far as the stage has them.
void add_relations(CLI::App& app, const Option& option) {
  CLI::Option* added = app.get_option(std::string(option.name()));
  for (const std::string_view name : option.traits.excludes) {
    if (auto* other = app.get_option_no_throw(std::string(name))) added->excludes(other);
  }
  for (const std::string_view name : option.traits.needs) {
    added->needs(app.get_option(std::string(name)));
  }
}

void add_refusal(CLI::App& app, const Option& option, int stage) {
  const auto refuse = [&option, stage](const std::vector<std::string>&) {
    fail("{}", why_no_option(option, stage, option.name()));
  };
  app.add_option_function<std::vector<std::string>>(std::string(option.name()), refuse)
      ->expected(0, 1)
      ->trigger_on_parse()
      ->group("");  // not in --help
}

void add_all(CLI::App& app, const CommandLine& line) {
  for (const Option& option : line.options) OptionAdder(app, option, line.stage).add();
  for (const Option& option : line.options) add_relations(app, option);
  app.set_version_flag("--version",
                       "specdec " SPECDEC_VERSION " (compiled with -march=" SPECDEC_MARCH ")");
  for (const Option& option : line.lacking) {
    const bool is_there = find_option(line.options, option.name()) != nullptr;
    if (!is_there) add_refusal(app, option, line.stage);
  }
}

// Refuses an option where another option's value is expected, as in "--trace --quiet". The parser
// would take it for the value.
void check_values(const CommandLine& line, std::span<const std::string> arguments) {
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string &name = arguments[i - 1], &value = arguments[i];
    const Option* option = find_option(line.options, name);
    if (option == nullptr || option->value_name().empty() || !value.starts_with("--")) continue;
    fail("{} takes {}, and {} follows it; a value that begins with -- is written {}={}", name,
         option->value_name(), value, name, value);
  }
}

// The arguments for the parser, which takes the last one first. In "--report= --quiet" it would
// take
// --quiet for the value, so an empty value becomes an argument of its own.
std::vector<std::string> for_parser(const CommandLine& line,
                                    std::span<const std::string> arguments) {
  std::vector<std::string> result;
  for (const std::string& argument : arguments) {
    const std::size_t end = argument.size() - argument.ends_with('=');
    const Option* option = find_option(line.options, std::string_view(argument).substr(0, end));
    if (option == nullptr || end == argument.size()) {
      result.push_back(argument);
      continue;
    }
    if (option->value_name().empty()) fail("{} takes no value", option->name());
    result.insert(result.end(), {std::string(option->name()), ""});
  }
  std::ranges::reverse(result);
  return result;
}

void parse(CLI::App& app, const CommandLine& line, std::span<const std::string> arguments) {
  add_all(app, line);
  check_values(line, arguments);
  app.parse(for_parser(line, arguments));
  for (const Option& option : line.options) {
    if (option.traits.given == nullptr) continue;
    *option.traits.given = app.count(std::string(option.name())) > 0;
  }
}

// Parses, and runs the body unless --help or --version was asked for.
int parse_and_run(const CommandLine& line, std::span<const std::string> arguments,
                  const std::function<int()>& body) {
  CLI::App app(line.description, line.program);
  try {
    parse(app, line, arguments);
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  }
  return body();
}

}  // namespace

void parse(const CommandLine& line, const std::vector<std::string>& arguments) {
  CLI::App app;
  parse(app, line, arguments);
}

std::string help(const CommandLine& line) {
  CLI::App app(line.description, line.program);
  add_all(app, line);
  return app.help();
}

int run_program(const CommandLine& line, int argc, char** argv, const std::function<int()>& body) {
  guard_process();
  const auto complain = [&](const std::string& message) -> int {
    say("{}: {}\n", line.program, as_message(message));
    return kBadInput;
  };
  try {
    const int code = parse_and_run(line, std::vector<std::string>(argv + 1, argv + argc), body);
    flush_stdout();
    return code;
  } catch (const CLI::ParseError& error) {
    return complain(fmt::format("{} (--help lists the options)", error.what()));
  } catch (const std::bad_alloc& error) {
    return complain(
        fmt::format("out of memory for activations and logits: {}; a shorter prompt, "
                    "or a smaller --spec-length or --max-batch, needs less",
                    memory_left(error)));
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) == 0) return complain(message_of(error));
    if (error.code() == std::errc::broken_pipe) return kGood;  // its reader has seen enough
    return complain(fmt::format("standard output cannot be written: {}", error.code().message()));
  } catch (const std::exception& error) {
    return complain(message_of(error));
  }
}

}  // namespace specdec
