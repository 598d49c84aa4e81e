#include "stages/programs/speculation/round_text.h"

#include <cstdio>

#include <fmt/color.h>

#include "common/base/streams.h"
#include "common/base/terminal.h"
#include "stages/programs/show/report.h"

namespace specdec {
namespace {

const fmt::text_style kAccepted = fmt::fg(fmt::terminal_color::green);
const fmt::text_style kOwn = fmt::fg(fmt::terminal_color::blue);
const fmt::text_style kRejected = fmt::fg(fmt::terminal_color::red) | fmt::emphasis::strikethrough;

void print(const fmt::text_style& style, const std::string& text) {
  fmt::print(stdout, style, "{}", text);
}

}  // namespace

RoundText::RoundText(const RunOptions& options)
    : shown_(options.output == OutputFormat::kText),
      coloured_(shown_ && !options.no_speculation && !options.quiet && use_colour(stdout)) {}

Generation::Sink RoundText::sink() {
  if (!shown_) return {};
  return [this](std::string_view text) {
    if (coloured_) {
      pieces_.emplace_back(generation_->tokens().size() - 1, text);
    } else {
      fmt::print("{}", text);
      flush_stdout();
    }
  };
}

void RoundText::finish_round(const Round& round, const Drafts& drafts, const Tokenizer* tokenizer) {
  if (!coloured_) return;
  const std::size_t before =
      generation_->tokens().size() - static_cast<std::size_t>(round.emitted());
  const std::size_t own = before + static_cast<std::size_t>(round.accepted);
  bool rejected_shown = round.end != RoundEnd::kRejected || tokenizer == nullptr;
  const auto show_rejected = [&] {
    if (rejected_shown) return;
    const TokenId token = drafts.token(round.accepted);
    std::string text = tokenizer->decode(std::span(&token, 1));
    std::erase(text, '\n');  // a line that does not end should not look as if it did
    print(kRejected, text);
    rejected_shown = true;
  };
  for (const auto& [token, text] : pieces_) {
    if (token >= own) show_rejected();
    print(token >= own ? kOwn : kAccepted, text);
  }
  show_rejected();
  pieces_.clear();
  flush_stdout();
}

}  // namespace specdec
