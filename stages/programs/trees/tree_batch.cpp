#include "stages/programs/trees/tree_batch.h"

#include <limits>

#include <fmt/format.h>

#include "stages/programs/trees/device_batch_tree_judge.h"
#include "stages/programs/trees/make_tree_drafter.h"
#include "stages/programs/trees/shape_option.h"
#include "stages/programs/trees/tree_profile.h"

namespace specdec {
namespace {

// What rounds of trees stand on.
struct DrafterAndJudge {
  std::unique_ptr<TreeDrafter> drafter;
  std::unique_ptr<BatchTreeJudge> judge;
};

std::unique_ptr<BatchTreeJudge> make_judge(const TreePlaces& places, Backend& target,
                                           const NamedSiblingRule& rule, const TreeSizes& sizes) {
  if (places.device) return std::make_unique<DeviceBatchTreeJudge>(*places.device, rule, sizes);
  return std::make_unique<BatchTreeJudge>(target, rule, sizes.room.verified + 1, sizes.vocab_size);
}

}  // namespace

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
  const int vocab_size = session.target.vocab_size();
  const TreePlaces places = places_of(session);
  const auto parts = std::make_shared<DrafterAndJudge>();
  parts->drafter = make_tree_drafter(session.options, shape_, session.draft, places,
                                     {vocab_size, longest, sizes.max_batch});
  parts->judge = make_judge(places, *session.backend, find_sibling_rule(options_.siblings),
                            {parts->drafter->room(), vocab_size, longest, sizes.max_batch});
  session.of_rounds = parts;
  return std::make_unique<TreeRounds>(session.target, *parts->drafter, *parts->judge,
                                      sizes.max_batch);
}

TreePlaces TreeBatch::places_of(BatchSession& session) const {
  Backend* draft = session.draft.model() ? &session.draft.model()->backend() : nullptr;
  return tree_places(*session.backend, draft, find_sibling_rule(options_.siblings), false);
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
  const TreePlaces places = places_of(session);
  if (places.device == nullptr && session.backend->samples()) {
    extras.summary += fmt::format("the host judges: {}\n", places.why_on_host);
  }
}

}  // namespace specdec
