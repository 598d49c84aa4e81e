#pragma once
#include <memory>
#include <string_view>
#include <utility>

#include "common/checkpoint/elements.h"
#include "stages/09_self_drafting/feature_model.h"
#include "tests/embedded_batch.h"
#include "tests/unit/stages/08_token_trees/tree_batch.h"
#include "tests/unit/stages/09_self_drafting/feature_folder.h"

namespace specdec::batch {

// The smaller embedded model is the target.
inline const LlamaModel& small_target() { return embedded().draft.model; }

// A random layer for it, whose head says about what the target's head says.
inline FeatureFolder small_layer(std::string_view layout) {
  FeatureFolder folder(layout, small_target().config());
  if (layout != "EAGLE-3") return folder;
  const Checkpoint checkpoint(golden_model("draft"));
  const std::vector<float> embedding = to_float32(checkpoint.weights().embedding);
  const std::ptrdiff_t E = small_target().config().d_model;
  std::vector<float> rows;
  for (int i = 0; i < FeatureFolder::kHeadRows; i++) {
    const auto first = embedding.begin() + (3 * i + 1) * E;
    rows.insert(rows.end(), first, first + E);
  }
  folder.put("lm_head.weight", DType::kF32, {FeatureFolder::kHeadRows, E}, rows);
  return folder;
}

// A target with a feature layer that drafts trees for it.
struct FeatureDrafting {
  // page_size: of both caches; kContiguous: stage 2's. pages: of the target's; 0: enough.
  FeatureDrafting(const FeatureFolder& folder, const TreeKind& kind, int max_requests,
                  int page_size, int pages = 0)
      : room(room_of(kind, max_requests)),
        llama(make_llama(small_target(), page_size, pages, max_requests, positions(room))),
        layer_model(make_model(folder, room, page_size)),
        rows(llama->llama, layer_model->layer().places, max_requests, positions(room),
             TargetRows::Of::kAllTokens),
        drafter(*layer_model, kind.drafter(*layer_model, kPositions + room.levels,
                                           small_target().config().vocab_size, max_requests)) {
    layer_model->read(rows);
  }

  static Capacity room_of(const TreeKind& kind, int max_requests) {
    Capacity room = kind.room();
    room.requests = max_requests;
    return room;
  }
  static int positions(const Capacity& room) { return kPositions + room.rows() + room.nodes; }
  static std::unique_ptr<FeatureModel> make_model(const FeatureFolder& folder, const Capacity& room,
                                                  int page_size) {
    FeatureLayer layer = folder.load(small_target().backend());
    auto cache = CachedLlama::make(*layer.block, page_size, positions(room), room.requests);
    poison(*cache);
    return std::make_unique<FeatureModel>(small_target(), std::move(layer), std::move(cache),
                                          embedded().tokenizer.vocab_size(), room);
  }

  Capacity room;
  std::unique_ptr<CachedLlama> llama;
  std::unique_ptr<FeatureModel> layer_model;
  TargetRows rows;
  SelfDrafter drafter;
};

inline TreeKind feature_trees(std::string_view name) {
  using Widths = std::vector<int>;
  const auto rule = [](std::string_view of) { return &find_sibling_rule(of); };
  if (name == "chain") return {shape<Chains>(1, 4), rule("rejection")};
  if (name == "chains") return {shape<Chains>(3, 4), rule("at-least")};
  return {shape<Likeliest>(plan_of_widths(Widths{3, 2, 1})), rule("rejection")};
}

}  // namespace specdec::batch
