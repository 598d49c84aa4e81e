#include "stages/programs/trees/tree_batch.h"

#include <limits>

#include <fmt/format.h>

#include "stages/programs/trees/make_tree_drafter.h"
#include "stages/programs/trees/shape_option.h"
#include "stages/programs/trees/tree_profile.h"

namespace specdec {

TreeBatch::TreeBatch(const RunOptions& options)
    : options_(options), shape_(shape_of(options, read_tree_profile(options))) {}

std::vector<QueuedRequest> TreeBatch::queue(const ModelFiles& target) const {
  return queue_requests(options_, target, [this](const ModelFiles& files, const auto& options) {
    check_drafts_differ(options);
    BatchRequest request = to_batch_request(files, options);
    request.spec_length = room_of_trees(options, shape_).levels;
    return request;
  });
}

BatchParts TreeBatch::parts() const {
  return {.drafting = {},
          .compose = {},
          .sizes_of_rounds = [this](int spec_length) { return round_sizes(spec_length); },
          .make_rounds = [this](BatchSession& session) { return make_rounds(session); }};
}

// spec_length: 0 where no request speculates.
RoundSizes TreeBatch::round_sizes(int spec_length) const {
  const TreeRoom room = spec_length > 0 ? room_of_trees(options_, shape_) : TreeRoom{};
  return {.rows = room.verified + 1,
          .probs = room.probs,
          .draft_rows = room.width,
          .nodes = room.nodes,
          .most_cached = [room](const BatchRequest& request) {
            return most_cached_with_trees(request, room, std::numeric_limits<int>::max());
          }};
}

std::unique_ptr<Rounds> TreeBatch::make_rounds(BatchSession& session) const {
  const BatchSizes& sizes = session.sizes;
  const int longest = static_cast<int>(sizes.longest) + sizes.spec_length + 1;
  const std::shared_ptr<TreeDrafter> drafter =
      make_tree_drafter(session.options, shape_, session.draft, {},
                        {session.target.vocab_size(), longest, sizes.max_batch});
  session.of_rounds = drafter;
  return std::make_unique<TreeRounds>(session.target, *drafter,
                                      find_sibling_rule(options_.siblings), sizes.max_batch);
}

void TreeBatch::add_trees(BatchSession& session) const {
  ReportExtras& extras = session.extras;
  const bool speculates = !session.options.no_speculation;
  const EngineStats& stats = session.engine.stats();
  const std::int64_t nodes = stats.round_rows - stats.rounds;  // each has its pending token, too
  extras.fields["tree"] = speculates ? Json(options_.tree) : Json(nullptr);
  extras.fields["siblings"] = options_.siblings;
  extras.fields["nodes"] = nodes;
  if (!speculates || stats.rounds == 0) return;
  extras.summary += fmt::format("{} rounds of {:.1f} nodes\n", stats.rounds,
                                static_cast<double>(nodes) / static_cast<double>(stats.rounds));
}

}  // namespace specdec
