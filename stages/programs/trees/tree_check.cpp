#include "stages/programs/trees/tree_check.h"

#include <fmt/format.h>

#include "stages/08_token_trees/tree_round.h"
#include "stages/programs/speculation/checked_run.h"
#include "stages/programs/trees/tree_run.h"

namespace specdec {
namespace {

constexpr const char* kShapes[] = {"top:3x2x1", "top:1x1x1x1x1", "best:12", "grow:12"};
constexpr const char* kShapesOfLookup[] = {"chains:3"};  // copied tokens have no ranks

// Returns what is wrong, or an empty text.
std::string check_text(const CheckedTarget& target, const GoldenText& text,
                       const std::string& shape, CacheKind kind) {
  RunOptions options = target.options;
  options.cache = kind;
  options.tree = shape;
  options.spec_length = 5;
  TreeRun trees(options);
  const SessionParts parts = trees.parts();
  CheckedRun run(target, trees.options(), target.request(text),
                 {.drafting = parts.drafting, .capacity = parts.capacity});
  GreedyTreeJudge judge(run.target.backend());
  while (!run.generation.finished()) tree_round(run.steps, judge, run.context, run.generation);
  return run.difference(text.tokens());
}

}  // namespace

int check_token_trees(const RunOptions& options) {
  const CheckedTarget target(options);
  const bool by_lookup = options.draft_kind == DraftKind::kLookup;
  const auto shapes = by_lookup ? std::span<const char* const>(kShapesOfLookup)
                                : std::span<const char* const>(kShapes);
  CheckList list;
  list.note_missing(target.goldens, {"greedy.jsonl"});
  for (const GoldenText& text : target.texts) {
    for (const CacheKind kind : {CacheKind::kPaged, CacheKind::kContiguous}) {
      if (kind == CacheKind::kContiguous && !text.id.ends_with("-0")) continue;
      for (const char* shape : shapes) {
        list.check(fmt::format("greedy text {}, {}, {} cache", text.id, shape, name_of(kind)),
                   check_text(target, text, shape, kind));
      }
    }
  }
  return list.finish();
}

}  // namespace specdec
