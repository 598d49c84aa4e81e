#include "stages/programs/self/self_draft.h"

#include <utility>

#include "common/base/error.h"
#include "common/embedded_models.h"
#include "common/speculation/sound_drafter.h"
#include "stages/programs/run/draft_length.h"

namespace specdec {

RunOptions with_heads(RunOptions options) {
  if (!options.given_draft_kind && options.fallback.empty()) options.draft_kind = DraftKind::kHeads;
  return options;
}

SelfDraft::SelfDraft(const RunOptions& options, int levels)
    : options_(options),
      has_heads_(options.draft_kind == DraftKind::kHeads),
      folder_(options.heads.empty() ? embedded_heads() / std::string(name_of(options.self_draft))
                                    : std::filesystem::path(options.heads)),
      levels_(levels) {
  if (!has_heads_) {
    if (options.heads.empty()) return;
    fail("--heads {} belongs to --draft-kind {}, not to {}", options.heads,
         name_of(DraftKind::kHeads), name_of(options.draft_kind));
  }
  if (!options.draft_of_draft.empty()) {
    fail("--draft-of-draft {}: heads are computed all at once, so nothing can draft for them",
         options.draft_of_draft.front());
  }
  if (draft_length_of(options) != DraftLength::kFixed) {
    fail("--draft-length {}: not for heads yet, whose costs are not measured",
         name_of(draft_length_of(options)));
  }
}

Drafting SelfDraft::drafting(Drafting drafting) {
  if (!has_heads_) return drafting;
  drafting.heads = folder_.string();
  drafting.make_heads = [this](const ModelFiles& files, const LlamaModel& target,
                               const Capacity& capacity) {
    if (options_.heads.empty() && !is_embedded_target(options_.target)) {
      fail("the embedded heads belong to the embedded target: give --heads DIR, or --draft-kind {}",
           name_of(DraftKind::kLookup));
    }
    auto heads = load_heads(folder_, files.checkpoint.config().d_model, target.config().d_model,
                            target.backend(), capacity.requests);
    if (levels_ > heads->count()) {
      fail("{} drafts in a row, but {} has {} heads", levels_, folder_.string(), heads->count());
    }
    auto model = std::make_unique<HeadsModel>(target, std::move(heads), files.token_limit,
                                              capacity.requests);
    heads_ = model.get();
    return model;
  };
  drafting.make = [this, make = drafting.make](LanguageModel& model, const Capacity& capacity,
                                               int vocab_size) {
    return std::make_unique<SelfDrafter>(*heads_, make(model, capacity, vocab_size));
  };
  return drafting;
}

WatchTarget SelfDraft::watch() {
  if (!has_heads_) return {};
  return [this](LanguageModel& target, const Capacity& capacity) -> std::unique_ptr<LanguageModel> {
    auto watched = std::make_unique<TargetRows>(target, std::vector<int>{Outputs::kAfterNorm},
                                                capacity.requests, capacity.rows());
    heads_->read(*watched);
    return watched;
  };
}

SessionParts SelfDraft::parts(SessionParts parts) {
  parts.drafting = drafting(std::move(parts.drafting));
  parts.watch = watch();
  return parts;
}

BatchParts SelfDraft::parts(BatchParts parts) {
  parts.drafting = drafting(std::move(parts.drafting));
  parts.watch = watch();
  return parts;
}

}  // namespace specdec
