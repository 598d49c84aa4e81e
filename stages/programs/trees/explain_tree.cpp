#include "stages/programs/trees/explain_tree.h"

#include <fmt/color.h>

namespace specdec {
namespace {

fmt::terminal_color verdict_colour(std::string_view verdict) {
  if (verdict == "accepted") return fmt::terminal_color::green;
  return verdict == "rejected" ? fmt::terminal_color::red : fmt::terminal_color::bright_black;
}

std::string line(std::string_view word, const std::string& text, fmt::terminal_color foreground,
                 bool colour) {
  const auto style = colour ? fmt::fg(foreground) : fmt::text_style();
  return fmt::format("  {} {}\n", fmt::format(style, "{:<11}", word), text);
}

// The nodes that follow one, each with what follows it.
std::string lines_after(const TreeRecord& record, int parent, const Tokenizer* tokenizer,
                        bool colour) {
  std::string text;
  for (int i = parent + 1; i < std::ssize(record.nodes); i++) {
    const auto& [drafted, drafts, verdict] = record.nodes[static_cast<std::size_t>(i)];
    if (drafted.parent != parent) continue;
    text += line(verdict,
                 fmt::format("{:{}}{}  path q {:.3f}{}", "", 2 * drafted.depth,
                             token_text(drafted.token, tokenizer), drafted.draft_prob,
                             drafts > 1 ? fmt::format("  {} drafts", drafts) : ""),
                 verdict_colour(verdict), colour);
    text += lines_after(record, i, tokenizer, colour);
  }
  return text;
}

std::string cache_text(const RoundRecord::CacheState& before,
                       const RoundRecord::CacheState& after) {
  return fmt::format("{} -> {}", before.length, after.length);
}

}  // namespace

std::string explain(const TreeRecord& record, int number, const Tokenizer* tokenizer, bool colour) {
  const TreeRound& round = record.round;
  std::string text =
      fmt::format("\nround {}, {} cached: {} nodes for {} drafts on {} levels, {} accepted, {}\n",
                  number, round.start, record.nodes.size(), record.trials.size(), round.drafted,
                  round.accepted, round_end_name(round.end));
  text += lines_after(record, TokenTree::kRoot, tokenizer, colour);
  if (record.last) {
    text += line(round.drafted == 0   ? "emitted"
                 : record.last->bonus ? "bonus"
                                      : "correction",
                 token_text(record.last->token, tokenizer), fmt::terminal_color::blue, colour);
  }
  text += fmt::format("  cached      target {}, draft {}\n",
                      cache_text(record.before.target, record.after.target),
                      cache_text(record.before.draft, record.after.draft));
  return text;
}

}  // namespace specdec
