#pragma once
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "common/checkpoint/elements.h"
#include "stages/09_self_drafting/feature_modules.h"
#include "stages/09_self_drafting/parallel_layer.h"
#include "tests/unit/stages/09_self_drafting/feature_folder.h"
#include "tests/unit/stages/09_self_drafting/self_way.h"

namespace specdec::batch {

// A random layer for it, whose head says about what the target's head says.
inline FeatureFolder small_layer(std::string_view layout) {
  FeatureFolder folder(layout, self_target().config());
  if (layout != "EAGLE-3" && layout != "P-EAGLE") return folder;
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

// What feature layers are as a language model: one alone, which may draft in one pass, or modules.
struct FeatureDraftModel {
  FeatureDraftModel(const FeatureFolder& folder, const Capacity& room, int positions,
                    int page_size) {
    std::vector<std::unique_ptr<FeatureModel>> models;
    for (FeatureLayer& layer : folder.load_all(self_target().backend())) {
      auto cache = CachedLlama::make(*layer.block, page_size, positions, room.requests);
      poison(*cache);
      models.push_back(std::make_unique<FeatureModel>(self_target(), std::move(layer),
                                                      std::move(cache),
                                                      embedded().tokenizer.vocab_size(), room));
      layers.push_back(models.back().get());
    }
    if (layers[0]->layer().mask_feature.size() > 0) {
      hold(std::make_unique<ParallelLayer>(std::move(models[0]), room.levels, room.requests,
                                           positions));
    } else if (layers.size() > 1) {
      hold(std::make_unique<FeatureModules>(std::move(models)));
    } else {
      hold(std::move(models[0]));
    }
  }
  template <typename Model>
  void hold(std::unique_ptr<Model> held) {
    round = held.get();
    model = std::move(held);
  }

  std::vector<FeatureModel*> layers;
  std::unique_ptr<LanguageModel> model;
  RoundModel* round = nullptr;
};

// A target with a feature layer that drafts trees for it.
struct FeatureDrafting {
  // page_size: of both caches; kNoPages: stage 2's. pages: of the target's; 0: enough.
  FeatureDrafting(const FeatureFolder& folder, const TreeKind& kind, int max_requests,
                  int page_size, int pages = 0)
      : room(room_of(kind, max_requests)),
        llama(make_llama(self_target(), page_size, pages, max_requests, positions(room))),
        drafts(folder, room, positions(room), page_size),
        rows(llama->llama, drafts.layers[0]->layer().places, max_requests, positions(room),
             TargetRows::Of::kAllTokens),
        self(*drafts.round, kind.drafter(*drafts.model, kPositions + room.levels,
                                         self_target().config().vocab_size, max_requests)) {
    drafts.layers[0]->read(rows);
  }

  static Capacity room_of(const TreeKind& kind, int max_requests) {
    Capacity room = kind.room();
    room.requests = max_requests;
    room.context = kPositions + room.levels;
    return room;
  }
  static int positions(const Capacity& room) { return kPositions + room.rows() + room.nodes; }

  LanguageModel& target() { return rows; }
  KvCache& target_cache() { return *llama->cache; }
  Drafter& drafter() { return self; }
  static KvCache* draft_cache() { return nullptr; }  // it is the layers', with room for all

  Capacity room;
  std::unique_ptr<CachedLlama> llama;
  FeatureDraftModel drafts;
  TargetRows rows;
  SelfDrafter self;
};

}  // namespace specdec::batch
