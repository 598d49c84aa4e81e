#include "stages/programs/self/self_draft.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/speculation/sound_drafter.h"
#include "stages/09_self_drafting/feature_modules.h"
#include "stages/09_self_drafting/heads_model.h"
#include "stages/09_self_drafting/lookahead_model.h"
#include "stages/09_self_drafting/parallel_layer.h"
#include "stages/09_self_drafting/parallel_model.h"
#include "stages/programs/adaptive/drafters.h"
#include "stages/programs/batch/memory_plan.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/run/draft_length.h"
#include "stages/programs/self/heads_folder.h"

namespace specdec {
namespace {

// One token after another, or all in one pass.
bool drafts_by_layer(const RunOptions& options) {
  if (options.draft_kind != DraftKind::kHeads) return false;
  if (options.self_draft != SelfDraftKind::kParallel) {
    return options.self_draft == SelfDraftKind::kFeature;
  }
  const std::filesystem::path folder = heads_folder(options);
  return !folder.empty() && is_feature_layer(folder);
}

// How the folder of --heads drafts, or if it does not tell, what --self-draft says.
SelfDraftKind kind_of(const RunOptions& options) {
  const std::filesystem::path folder = heads_folder(options);
  const SelfDraftKind kind = kind_of_heads(folder).value_or(options.self_draft);
  if (options.given_self_draft && kind != options.self_draft) {
    const bool of_layer = options.self_draft == SelfDraftKind::kFeature ||
                          options.self_draft == SelfDraftKind::kParallel;
    if (of_layer && has_mask(folder)) return options.self_draft;
    fail("--self-draft {}: the heads in {} are of the kind {}", name_of(options.self_draft),
         folder.string(), name_of(kind));
  }
  return kind;
}

// Of a model that keeps the logits of a round: a row for each of these drafts of each request.
std::size_t logits_bytes(const LlamaModel& target, const Capacity& capacity, int drafts) {
  return std::size_t(capacity.requests) * drafts * target.config().vocab_size * sizeof(float);
}

// Of heads, up to five rows for each.
std::size_t activations_of(const Heads& heads, const Capacity& capacity) {
  return std::size_t(5) * capacity.requests * heads.count() * heads.width() * sizeof(float);
}

// Of a feature layer's passes, and of what enters them, four rows for each token.
std::size_t activations_of(const FeatureLayer& layer) {
  constexpr int kRows = FeatureModel::kPassRows;
  const LlamaConfig& config = layer.block->config();
  return activations(config, kRows) + std::size_t(4) * kRows * config.d_model * sizeof(float);
}

// Shows it the target's rows of all tokens.
template <typename Model>
WatchTarget shows_all_rows(Model& model, const std::vector<int>& places) {
  return [&model, places](Llama& llama, const Capacity& of_run) {
    auto watched = std::make_unique<TargetRows>(
        llama, places, of_run.requests, of_run.context + of_run.rows(), TargetRows::Of::kAllTokens);
    model.read(*watched);
    return watched;
  };
}

}  // namespace

RunOptions with_heads(RunOptions options) {
  const bool asked_for = !options.heads.empty() || options.given_self_draft;
  if (!options.heads.empty()) options.self_draft = kind_of(options);
  const RunOptions plain;
  const bool of_a_draft_model = options.draft != plain.draft || !options.inflate_draft.empty() ||
                                options.draft_weights != plain.draft_weights;
  const bool has_some =  // heads do not rank beams, so a search uses them only if asked to
      !of_a_draft_model && options.stage < kFirstBeamStage && !heads_folder(options).empty();
  if (!options.given_draft_kind && options.fallback.empty() && (asked_for || has_some)) {
    options.draft_kind = DraftKind::kHeads;
  }
  const bool by_layer = drafts_by_layer(options);
  if (options.draft_kind == DraftKind::kHeads && options.self_draft == SelfDraftKind::kParallel &&
      !by_layer) {
    options.draft_kind = DraftKind::kLlama;
    options.draft = heads_folder(options).string();
  }
  const bool for_beams =
      options.draft_kind == DraftKind::kHeads && options.stage >= kFirstBeamStage;
  const bool with_layer = drafts_by_layer(with_base_kind(options));  // or falls back on one
  if (with_layer || for_beams) options.no_prefix_cache = true;
  return options;
}

SelfDraft::SelfDraft(const RunOptions& options, int levels)
    : options_(options),
      has_heads_(options.draft_kind == DraftKind::kHeads),
      is_parallel_(options.drafts_in_parallel()),
      folder_(is_parallel_ ? std::filesystem::path(options.draft) : heads_folder(options)),
      levels_(levels) {
  const bool in_one_pass = options.self_draft == SelfDraftKind::kParallel ||
                           options.self_draft == SelfDraftKind::kLookahead;
  if (!options.markov.empty() && !(in_one_pass && (has_heads_ || is_parallel_))) {
    fail("--markov belongs to --self-draft {} or {}", name_of(SelfDraftKind::kParallel),
         name_of(SelfDraftKind::kLookahead));
  }
  if (!has_heads_ && !is_parallel_) {
    if (options.heads.empty() && !options.given_self_draft) return;
    fail("{} belongs to --draft-kind {}, not to {}",
         options.heads.empty() ? "--self-draft" : "--heads " + options.heads,
         name_of(DraftKind::kHeads), name_of(options.draft_kind));
  }
  if (!options.draft_of_draft.empty()) {
    fail("--draft-of-draft {}: {}, so nothing can draft for them", options.draft_of_draft.front(),
         drafts_by_layer(options) ? "feature layers read rows that only their target has"
                                  : "heads are computed all at once");
  }
  if (has_heads_ && options.self_draft == SelfDraftKind::kParallel && !drafts_by_layer(options)) {
    fail("--fallback {}: --self-draft {} is not among the kinds that it takes", options.fallback,
         name_of(SelfDraftKind::kParallel));
  }
  if (has_heads_ && options.draft_weights != WeightFormat::kStored) {
    fail("--draft-weights {}: heads are kept as their files have them",
         name_of(options.draft_weights));
  }
}

// Whether a policy chooses how many tokens to draft, or beams are drafted, and the options do not
// say how many at most.
bool SelfDraft::drafts_up_to() const {
  const bool up_to =
      draft_length_of(options_) != DraftLength::kFixed || options_.stage >= kFirstBeamStage;
  return up_to && !options_.given_spec_length;
}

// Throws Error if the model cannot draft as many tokens in a row as a round has.
void SelfDraft::check_levels(int most, std::string_view what) const {
  if (levels_ > most && !drafts_up_to())
    fail("{} drafts in a row, but {} has {}", levels_, folder_.string(), what);
}

HeadsOfTarget SelfDraft::make_heads(const ModelFiles& files, const LlamaModel& target,
                                    const Capacity& capacity) const {
  LoadedHeads heads =
      load_heads(folder_, files.checkpoint, target.config(), target.backend(), capacity.requests);
  const int count = heads.heads->count();
  check_levels(count, fmt::format("{} heads", count));
  HeadsMemory memory{.weights = heads.heads->bytes(),
                     .logits = logits_bytes(target, capacity, count),
                     .activations = activations_of(*heads.heads, capacity)};
  for (const DraftHead& head : heads.says) {
    if (head.matrix) memory.weights += head.matrix->bytes();
  }
  auto model =
      std::make_unique<HeadsModel>(target, std::move(heads), files.token_limit, capacity.requests);
  // Beams are above other nodes of a tree, of which a pass has no rows again.
  const bool beams = options_.stage >= kFirstBeamStage;
  const auto watch = [heads = model.get(), beams](Llama& llama, const Capacity& of_run) {
    auto watched = std::make_unique<TargetRows>(
        llama, std::vector<int>{Outputs::kAfterNorm}, of_run.requests,
        of_run.rows() + (beams ? of_run.context : 0),
        beams ? TargetRows::Of::kAllTokens : TargetRows::Of::kLastPass);
    heads->read(*watched);
    return watched;
  };
  return {std::move(model), watch, memory};
}

HeadsOfTarget SelfDraft::make_lookahead(const ModelFiles& files, const LlamaModel& target,
                                        const Capacity& capacity) const {
  auto model = std::make_unique<LookaheadModel>(
      target, load_lookahead(folder_, files.checkpoint.config().d_model, target.config().d_model),
      capacity.requests);
  check_levels(model->max_drafts(),
               fmt::format("{} look-ahead tokens, for one more", model->max_drafts() - 1));
  const int levels = std::min(levels_, model->max_drafts());
  if (capacity.rows() < levels) {  // the rows of the target's cache that a round may use
    fail("--tree {}: look-ahead tokens draft {} tokens in a row, and it verifies {} at most",
         options_.tree, levels, capacity.verified);
  }
  const auto watch = [lookahead = model.get()](Llama& llama, const Capacity&) {
    lookahead->read(llama);
    return nullptr;
  };
  const std::size_t logits = logits_bytes(target, capacity, model->max_drafts());
  return {std::move(model), watch, {.logits = logits}};
}

// The layer's cache has room for all requests from the beginning.
std::unique_ptr<FeatureModel> SelfDraft::load_layer(FeatureLayer layer, const LlamaModel& target,
                                                    int token_limit, const Capacity& capacity,
                                                    HeadsMemory& memory) const {
  RunOptions of_layer = options_;
  of_layer.page_size = options_.draft_page_size;
  of_layer.pages = 0;
  const int positions = std::min(capacity.context, layer.block->config().max_seq_len);
  auto cache = make_cache(
      *layer.block, cache_layout(of_layer, positions + capacity.branches(), capacity.requests));
  memory.weights += layer.bytes();
  memory.cache += cache->memory().bytes();
  memory.activations += activations_of(layer);
  return std::make_unique<FeatureModel>(target, std::move(layer), std::move(cache), token_limit,
                                        capacity);
}

HeadsOfTarget SelfDraft::make_feature(const ModelFiles& files, const LlamaModel& target,
                                      const Capacity& capacity) const {
  auto layers = load_feature_layers(folder_, files.checkpoint, target.config(), target.backend());
  const bool in_one_pass = options_.self_draft == SelfDraftKind::kParallel;
  if (!in_one_pass) layers.front().mask_feature = {};
  const std::vector<int> places = layers.front().places;
  HeadsMemory memory;
  std::vector<std::unique_ptr<FeatureModel>> models;
  for (FeatureLayer& layer : layers) {
    models.push_back(load_layer(std::move(layer), target, files.token_limit, capacity, memory));
  }
  if (in_one_pass) {
    memory.logits = logits_bytes(target, capacity, levels_);
    auto model = std::make_unique<ParallelLayer>(std::move(models.front()), levels_,
                                                 capacity.requests, capacity.context + 1);
    const WatchTarget watch = shows_all_rows(model->layer(), places);
    return {std::move(model), watch, memory};
  }
  if (models.size() == 1) {
    const WatchTarget watch = shows_all_rows(*models.front(), places);
    return {std::move(models.front()), watch, memory};
  }
  check_levels(int_size(models), fmt::format("{} modules", models.size()));
  const std::size_t rows =
      std::size_t(capacity.requests) * capacity.context;  // read by the next one
  memory.activations += (models.size() - 1) * rows * target.config().d_model * sizeof(float);
  memory.logits = logits_bytes(target, capacity, capacity.width);
  auto modules = std::make_unique<FeatureModules>(std::move(models));
  const WatchTarget watch = shows_all_rows(*modules, places);
  return {std::move(modules), watch, memory};
}

HeadsOfTarget SelfDraft::make(const ModelFiles& files, const LlamaModel& target,
                              const Capacity& capacity) const {
  if (folder_.empty()) {
    fail("no {} heads come with this target: give --heads DIR, or --draft-kind {}",
         name_of(options_.self_draft), name_of(DraftKind::kLookup));
  }
  if (options_.self_draft == SelfDraftKind::kLookahead) {
    return make_lookahead(files, target, capacity);
  }
  if (drafts_by_layer(options_)) return make_feature(files, target, capacity);
  return make_heads(files, target, capacity);
}

Drafting SelfDraft::drafting(Drafting drafting) const {
  if (is_parallel_) return drafting_in_parallel(std::move(drafting));
  if (!has_heads_) return drafting;
  drafting.heads = folder_.string();
  drafting.make_heads = [this](const ModelFiles& files, const LlamaModel& target,
                               const Capacity& capacity) { return make(files, target, capacity); };
  // Of --fallback, the other drafter may be a draft model.
  drafting.make = [this, make = drafting.make](LanguageModel& model, const Capacity& capacity,
                                               int vocab_size) {
    auto* heads = dynamic_cast<RoundModel*>(&model);
    if (heads == nullptr) return make(model, capacity, vocab_size);
    auto corrected = correction(dynamic_cast<OnePassModel*>(&model), capacity);
    auto drafter = make(corrected ? *corrected : model, capacity, vocab_size);
    return std::unique_ptr<Drafter>(
        std::make_unique<SelfDrafter>(*heads, std::move(drafter), std::move(corrected)));
  };
  return drafting;
}

// By --markov; null: none.
std::unique_ptr<MarkovModel> SelfDraft::correction(OnePassModel* model,
                                                   const Capacity& capacity) const {
  if (options_.markov.empty()) return nullptr;
  SPECDEC_CHECK(model != nullptr, "a model that drafts in one pass");
  return std::make_unique<MarkovModel>(
      *model, load_markov(named_folder(options_.markov), model->vocab_size(), model->backend()),
      capacity.requests * capacity.width);
}

Drafting SelfDraft::drafting_in_parallel(Drafting drafting) const {
  drafting.make = [this, make = drafting.make](LanguageModel& draft, const Capacity& capacity,
                                               int vocab_size) {
    const TokenId mask = read_mask_token(folder_ / "config.json", draft.vocab_size());
    auto model = std::make_unique<ParallelModel>(draft, mask, levels_, capacity.requests,
                                                 capacity.context + 1);
    auto corrected = correction(model.get(), capacity);
    LanguageModel& proposing = corrected ? static_cast<LanguageModel&>(*corrected) : *model;
    auto drafter = make(proposing, capacity, vocab_size);
    return std::make_unique<ParallelDrafter>(std::move(model), std::move(corrected),
                                             std::move(drafter), capacity.requests);
  };
  return drafting;
}

SessionParts SelfDraft::parts(SessionParts parts) const {
  parts.drafting = drafting(std::move(parts.drafting));
  return parts;
}

BatchParts SelfDraft::parts(BatchParts parts) const {
  parts.drafting = drafting(std::move(parts.drafting));
  if (drafts_by_layer(options_)) {
    parts.announcement =
        "no prefix cache: a feature layer reads a row for each token of a prompt\n";
  }
  return parts;
}

}  // namespace specdec
