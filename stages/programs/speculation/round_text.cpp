#include "stages/programs/speculation/round_text.h"

#include <cstdio>

#include <fmt/color.h>

#include "common/base/streams.h"
#include "common/base/terminal.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

const fmt::text_style kAcceptedStyle = fmt::fg(fmt::terminal_color::green);
const fmt::text_style kOwnStyle = fmt::fg(fmt::terminal_color::blue);
const fmt::text_style kRejectedStyle =
    fmt::fg(fmt::terminal_color::red) | fmt::emphasis::strikethrough;

void print(const fmt::text_style& style, std::string_view text) {
  fmt::print(stdout, style, "{}", text);
}

void print_rejected(TokenId token, const Tokenizer& tokenizer) {
  std::string text = tokenizer.decode(std::span(&token, 1));
  std::erase(text, '\n');  // a rejected newline must not end the line
  print(kRejectedStyle, text);
}

}  // namespace

RoundText::RoundText(const RunOptions& options)
    : stream_(options),
      coloured_(stream_.is_shown() && !options.no_speculation && !options.quiet &&
                use_colour(stdout)) {}

void RoundText::finish_round(const Round& round, const Generation& generation, const Drafts& drafts,
                             const Tokenizer* tokenizer) {
  if (!coloured_) return stream_.show_new(generation);
  const int end = int_size(generation.tokens());
  const int own = end - round.emitted() + round.accepted;
  for (int i = end - round.emitted(); i < own; ++i) print(kAcceptedStyle, generation.text_of(i));
  if (round.end == RoundEnd::kRejected && tokenizer != nullptr) {
    print_rejected(drafts.token(round.accepted), *tokenizer);
  }
  for (int i = own; i < end; ++i) print(kOwnStyle, generation.text_of(i));
  flush_stdout();
}

}  // namespace specdec
