#include "stages/programs/trees/explain_tree.h"

#include <algorithm>

#include <fmt/color.h>

#include "common/base/json_value.h"

namespace specdec {
namespace {

std::string shown(TokenId token, const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return fmt::format("{}", token);
  const std::string text = tokenizer->decode(std::span(&token, 1), false);
  return Json(text).dump(-1, Json::InvalidUtf8::kReplace);
}

struct Verdict {
  std::string_view word;
  fmt::terminal_color colour;
};

// What became of a node that follows `parent`.
Verdict verdict(const TokenTree& tree, const TreeRound& round, int parent, int node) {
  const auto& path = round.path;
  if (std::ranges::count(path, node) > 0) return {"accepted", fmt::terminal_color::green};
  const bool reached = parent == TokenTree::kRoot || std::ranges::count(path, parent) > 0;
  const auto place = static_cast<std::size_t>(tree.node(node).depth);
  if (!reached || place >= round.tested_at.size()) {
    return {"not reached", fmt::terminal_color::bright_black};
  }
  const auto tested = tree.trials(parent).first(static_cast<std::size_t>(round.tested_at[place]));
  if (std::ranges::count(tested, node, &TokenTree::Trial::node) > 0) {
    return {"rejected", fmt::terminal_color::red};
  }
  return {"not tested", fmt::terminal_color::bright_black};
}

std::string line(const Verdict& what, const std::string& text, bool colour) {
  const auto style = colour ? fmt::fg(what.colour) : fmt::text_style();
  return fmt::format("  {} {}\n", fmt::format(style, "{:<11}", what.word), text);
}

// The nodes that follow one, each with what follows it.
std::string lines_after(const TokenTree& tree, const TreeRound& round, int parent,
                        const Tokenizer* tokenizer, bool colour) {
  std::string text;
  std::vector<int> done;
  for (const TokenTree::Trial& trial : tree.trials(parent)) {
    const int node = trial.node;
    if (std::ranges::count(done, node) > 0) continue;
    done.push_back(node);
    const auto& [token, up, depth, draft_prob] = tree.node(node);
    const int drafts = tree.drafts_through(node);
    text += line(verdict(tree, round, parent, node),
                 fmt::format("{:{}}{}  path q {:.3f}{}", "", 2 * depth, shown(token, tokenizer),
                             draft_prob, drafts > 1 ? fmt::format("  {} drafts", drafts) : ""),
                 colour);
    text += lines_after(tree, round, node, tokenizer, colour);
  }
  return text;
}

std::string cache_text(const RoundRecord::CacheState& before,
                       const RoundRecord::CacheState& after) {
  return fmt::format("{} -> {}", before.length, after.length);
}

}  // namespace

std::string explain_tree(const TokenTree& tree, const TreeRound& round, int number,
                         std::span<const TokenId> context, const RoundRecord::State& before,
                         const RoundRecord::State& after, const Tokenizer* tokenizer, bool colour) {
  std::string text =
      fmt::format("\nround {}, {} cached: {} nodes for {} drafts on {} levels, {} accepted, {}\n",
                  number, round.start, tree.size(), tree.n_trials(), round.drafted, round.accepted,
                  round_end_name(round.end));
  text += lines_after(tree, round, TokenTree::kRoot, tokenizer, colour);
  if (round.end != RoundEnd::kStopped) {
    const bool bonus = round.end == RoundEnd::kAllAccepted;
    text += line({round.drafted == 0 ? "emitted"
                  : bonus            ? "bonus"
                                     : "correction",
                  fmt::terminal_color::blue},
                 shown(context.back(), tokenizer), colour);
  }
  text +=
      fmt::format("  cached      target {}, draft {}\n", cache_text(before.target, after.target),
                  cache_text(before.draft, after.draft));
  return text;
}

}  // namespace specdec
