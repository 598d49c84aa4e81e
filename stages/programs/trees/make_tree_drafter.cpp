#include "stages/programs/trees/make_tree_drafter.h"

#include <algorithm>
#include <utility>

#include "stages/08_token_trees/lookup_tree_drafter.h"
#include "stages/programs/trees/sound_tree_drafter.h"

namespace specdec {
namespace {

// No tree: every round is a plain step.
class NoTrees final : public TreeDrafter {
 public:
  SequenceId create() override { return 0; }
  void release(SequenceId) override {}
  void draft(std::span<const TreeRequest>) override {}
  void keep(SequenceId, std::span<const int>) override {}
  void truncate(SequenceId, int) override {}
  int length(SequenceId) const override { return 0; }
  TreeRoom room() const override { return {}; }
};

std::unique_ptr<TreeDrafter> make_lookup(const MakeTreeShape& shape) {
  const TreeRoom room = shape()->room();
  return std::make_unique<LookupTreeDrafter>(LookupTreeDrafter::Options{
      .continuations = std::max(1, room.nodes / room.levels), .levels = room.levels});
}

}  // namespace

TreeRoom room_of_trees(const RunOptions& options, const MakeTreeShape& shape) {
  if (options.no_speculation) return {};
  return options.draft_kind == DraftKind::kLookup ? make_lookup(shape)->room() : shape()->room();
}

std::unique_ptr<TreeDrafter> make_tree_drafter(const RunOptions& options,
                                               const MakeTreeShape& shape, DraftSetup& draft,
                                               const TreePlaces& places,
                                               const TreeDrafterRoom& room) {
  if (options.no_speculation) return std::make_unique<NoTrees>();
  if (options.draft_kind == DraftKind::kLookup) return make_lookup(shape);
  const auto& [vocab_size, max_context, max_requests] = room;
  auto drafter = std::make_unique<ModelTreeDrafter>(
      *draft.model(), shape, max_context, vocab_size, max_requests,
      make_tree_brancher(places, {shape()->room(), vocab_size, max_context, max_requests}));
  return std::make_unique<SoundTreeDrafter>(std::move(drafter), draft.tell_damage());
}

}  // namespace specdec
