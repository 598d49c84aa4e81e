#include "stages/programs/speculation/greedy_check.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "stages/04_greedy_speculation/greedy_speculation.h"
#include "stages/programs/speculation/checked_run.h"

namespace specdec {
namespace {

// The number of accepted drafts in a round from token `at` on: as many as both models agree on.
int accepted_from(const GoldenText& text, std::size_t at, int K) {
  int accepted = 0;
  for (std::size_t i = at; i < text.steps.size() && accepted < K; ++i, ++accepted) {
    if (text.steps[i].token != text.draft_tokens[i]) break;
  }
  return accepted;
}

// The same for any drafter; none: the goldens do not tell.
std::optional<int> accepted_by(DraftKind kind, const GoldenText& text, std::size_t at,
                               int drafted) {
  if (kind == DraftKind::kLlama) return accepted_from(text, at, drafted);
  if (kind != DraftKind::kSelf) return std::nullopt;
  return std::min<int>(drafted, static_cast<int>(text.steps.size() - at));
}

// Returns what is wrong, or an empty text.
std::string check_text(const CheckedTarget& target, const GoldenText& text, DraftKind kind, int K) {
  RunOptions options = target.options;
  options.draft_kind = kind;
  options.spec_length = K;
  CheckedRun run(target, options, target.request(text));
  while (!run.generation.finished()) {
    const std::size_t at = run.generation.tokens().size();
    const Round round = greedy_round(run.steps, run.context, run.generation);
    const std::optional<int> want = accepted_by(kind, text, at, round.drafted);
    if (want && round.accepted != *want) {
      return fmt::format("the round after {} tokens accepted {} drafted tokens, not {}", at,
                         round.accepted, *want);
    }
  }
  return run.difference(text.tokens());
}

std::string_view drafter_in_words(DraftKind kind) {
  if (kind == DraftKind::kSelf) return "the target";
  return kind == DraftKind::kLlama ? "the draft" : name_of(kind);
}

}  // namespace

int check_greedy_speculation(const RunOptions& options) {
  const CheckedTarget target(options);
  CheckList list;
  list.note_missing(target.goldens, {"greedy.jsonl"});
  const auto add = [&](const GoldenText& text, DraftKind kind, int K) {
    list.check(fmt::format("greedy text {}: {} tokens, drafts by {}, K = {}", text.id,
                           text.steps.size(), drafter_in_words(kind), K),
               check_text(target, text, kind, K));
  };
  for (const GoldenText& text : target.texts) {
    const bool by_draft = !text.draft_tokens.empty();
    if (!needs_model(options.draft_kind)) add(text, options.draft_kind, 5);
    if (by_draft) add(text, DraftKind::kLlama, 5);
    if (!text.id.ends_with("-0")) continue;
    for (const int K : {1, 2, 8, 16}) {
      if (by_draft) add(text, DraftKind::kLlama, K);
    }
    add(text, DraftKind::kSelf, 5);
  }
  return list.finish();
}

}  // namespace specdec
