#pragma once
#include <memory>
#include <string_view>
#include <utility>

#include "common/checkpoint/elements.h"
#include "stages/09_self_drafting/feature_model.h"
#include "tests/unit/stages/09_self_drafting/feature_folder.h"
#include "tests/unit/stages/09_self_drafting/self_way.h"

namespace specdec::batch {

// A random layer for it, whose head says about what the target's head says.
inline FeatureFolder small_layer(std::string_view layout) {
  FeatureFolder folder(layout, self_target().config());
  if (layout != "EAGLE-3") return folder;
  const Checkpoint checkpoint(golden_model("draft"));
  const std::vector<float> embedding = to_float32(checkpoint.weights().embedding);
  const std::ptrdiff_t E = self_target().config().d_model;
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
        llama(make_llama(self_target(), page_size, pages, max_requests, positions(room))),
        layer_model(make_model(folder, room, page_size)),
        rows(llama->llama, layer_model->layer().places, max_requests, positions(room),
             TargetRows::Of::kAllTokens),
        self(*layer_model, kind.drafter(*layer_model, kPositions + room.levels,
                                        self_target().config().vocab_size, max_requests)) {
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
    FeatureLayer layer = folder.load(self_target().backend());
    auto cache = CachedLlama::make(*layer.block, page_size, positions(room), room.requests);
    poison(*cache);
    return std::make_unique<FeatureModel>(self_target(), std::move(layer), std::move(cache),
                                          embedded().tokenizer.vocab_size(), room);
  }

  LanguageModel& target() { return rows; }
  KvCache& target_cache() { return *llama->cache; }
  Drafter& drafter() { return self; }
  static KvCache* draft_cache() { return nullptr; }  // it is the layer's, with room for all

  Capacity room;
  std::unique_ptr<CachedLlama> llama;
  std::unique_ptr<FeatureModel> layer_model;
  TargetRows rows;
  SelfDrafter self;
};

}  // namespace specdec::batch
