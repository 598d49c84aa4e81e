#include "stages/programs/speculation/draft_setup.h"

#include <algorithm>
#include <utility>

#include "common/base/error.h"
#include "common/base/json_value.h"
#include "common/base/mapped_file.h"
#include "common/base/streams.h"
#include "common/base/utf8.h"
#include "common/speculation/device_drafter.h"
#include "common/speculation/lookup_drafter.h"
#include "common/speculation/ngram_model.h"
#include "common/speculation/random_drafter.h"
#include "stages/04_greedy_speculation/greedy_drafter.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/run/draft_length.h"
#include "stages/programs/run/load_model.h"

namespace specdec {
namespace {

std::size_t pass_bytes(const LlamaModel& model) {
  return model.layer_bytes() + model.head().bytes();
}

// How the draft's tokens differ from the target's; empty if they do not. is_of_target: made for
// this target, like heads, so that it needs no tokenizer of its own. Throws Error if the draft's
// tokenizer cannot be read.
std::string vocabulary_difference(const ModelFiles& target, const Checkpoint& draft,
                                  bool is_of_target) {
  const auto tokenizer_path = draft.directory() / "tokenizer.json";
  const bool has_tokenizer = std::filesystem::exists(tokenizer_path);
  if (has_tokenizer != target.tokenizer.has_value() && (has_tokenizer || !is_of_target)) {
    return fmt::format("{} has a tokenizer.json, so their tokens cannot be compared",
                       has_tokenizer ? "only the draft" : "only the target");
  }
  const int rows = draft.config().vocab_size;
  if (!has_tokenizer) {
    const int of_target = target.checkpoint.config().vocab_size;
    if (rows == of_target) return "";
    return fmt::format(
        "this draft does not fit the target: its vocabulary has {} rows, the target's {}", rows,
        of_target);
  }
  const Tokenizer tokenizer = Tokenizer::load(tokenizer_path);
  if (const auto difference = first_difference(*target.tokenizer, tokenizer)) {
    return fmt::format("this draft does not fit the target: {}", *difference);
  }
  // Rows beyond the tokenizer's entries are padding, masked on both sides.
  if (rows >= target.token_limit) return "";
  return fmt::format("this draft has {} rows for its tokenizer's {} entries", rows,
                     target.token_limit);
}

// Throws Error if the draft's tokens differ. For the default draft, it says how to choose another.
void require_draft_fits(const RunOptions& options, const ModelFiles& target,
                        const Checkpoint& draft) {
  const std::string difference = vocabulary_difference(target, draft, options.drafts_in_parallel());
  if (difference.empty()) return;
  if (options.draft != RunOptions().draft) {
    fail("{}: {}", draft.directory().string(), difference);
  }
  fail(
      "the embedded draft does not fit {}: give --draft DIR, or a draft without a model of "
      "its own: --draft-kind {}, or {} with --draft-weights {}",
      options.target, name_of(DraftKind::kLookup), name_of(DraftKind::kSelf),
      name_of(WeightFormat::kInt8));
}

}  // namespace

std::vector<TokenId> read_draft_text(const std::string& path, const RunOptions& options,
                                     const ModelFiles& files) {
  if (!files.tokenizer) {
    fail("--draft-kind {} needs a tokenizer for its text, and the checkpoint has none",
         name_of(options.draft_kind));
  }
  std::vector<TokenId> text = files.tokenizer->encode(read_text_file(path), false);
  if (text.empty()) fail("{}: the text is empty", path);
  if (const TokenId last = std::ranges::max(text); last >= files.token_limit) {
    fail("{}: the text contains the token {}, for which the model has no row", path,
         in_quotes(files.tokenizer->token_text(last)));
  }
  return text;
}

std::unique_ptr<Drafter> make_greedy_drafter(LanguageModel& model, const Capacity& capacity,
                                             int /*vocab_size*/) {
  auto drafter = std::make_unique<GreedyDrafter>(model, capacity.context + 1);
  if (!model.feeds_from_device()) return drafter;
  return std::make_unique<DeviceDrafter>(model, std::move(drafter), capacity.context + 1,
                                         capacity.requests, 0);
}

Json spec_length_json(const RunOptions& options) {
  if (draft_length_of(options) != DraftLength::kFixed && !options.no_speculation) return kAuto;
  return spec_length_of(options);
}

DraftSetup::DraftSetup(const RunOptions& options, const ModelFiles& files, const LlamaModel& target,
                       const Capacity& capacity, const Drafting& drafting,
                       const ComposeDrafter& compose)
    : options_(options), files_(files), drafting_(drafting), target_(target) {
  const DraftKind kind = options.draft_kind;
  const bool own_format = options.draft_weights != WeightFormat::kStored;
  if (own_format && !needs_model(kind)) {
    fail("--draft-weights {} belongs to --draft-kind {}; {} has no weights",
         name_of(options.draft_weights), drafters_with_models(), name_of(kind));
  }
  if (!options.inflate_draft.empty() && kind != DraftKind::kLlama) {
    fail("--inflate-draft needs a draft model of its own, but --draft-kind is {}", name_of(kind));
  }
  if (!options.no_speculation) load_own_model();
  make_drafter(capacity);
  if (compose && !options.no_speculation) composed_ = compose(*this, capacity);
}

DraftSetup::DraftSetup(const DraftSetup& other, const Capacity& capacity)
    : options_(other.options_),
      files_(other.files_),
      drafting_(other.drafting_),
      target_(other.target_),
      own_model_(other.own_model_),
      damage_is_told_(other.damage_is_told_) {
  make_drafter(capacity);
}

Drafts DraftSetup::make_drafts(const Capacity& capacity) const {
  Backend& backend = target_.backend();
  return Drafts(capacity, drafting_.keep == KeepProbs::kNone ? 0 : target_.config().vocab_size,
                drafting_.keep == KeepProbs::kBesideLogits ? sampling_device(backend) : nullptr);
}

void DraftSetup::make_drafter(const Capacity& capacity) {
  const DraftKind kind = options_.draft_kind;
  if (options_.no_speculation) {
    drafter_ = std::make_unique<NoDrafter>();
  } else if (kind == DraftKind::kHeads) {
    HeadsOfTarget heads = drafting_.make_heads(files_, target_, capacity);
    model_ = std::move(heads.model);
    watch_ = std::move(heads.watch);
    heads_memory_ = heads.memory;
    make_sound(capacity);
  } else if (own_model_) {
    make_llama(*own_model_, capacity);
  } else if (kind == DraftKind::kSelf) {
    make_llama(target_, capacity);
    warning_ =
        "the draft is the target itself: every drafted token will be accepted, but there is no "
        "speedup";
  } else if (kind == DraftKind::kRandom) {
    drafter_ = std::make_unique<RandomDrafter>(files_.token_limit);
  } else if (kind == DraftKind::kLookup) {
    drafter_ = drafting_.make_lookup
                   ? drafting_.make_lookup()
                   : std::make_unique<LookupDrafter>(capacity.context + 1, capacity.requests);
  } else if (kind == DraftKind::kNgram || kind == DraftKind::kSuffix) {
    drafter_ = drafting_.make_learning(options_, files_);
  } else {
    make_table(capacity);
  }
}

void DraftSetup::make_llama(const LlamaModel& model, const Capacity& capacity) {
  const int places = std::min(capacity.context, model.config().max_seq_len) + capacity.branches();
  RunOptions of_draft = options_;
  of_draft.page_size = options_.draft_page_size;
  of_draft.pages = capacity.pages;  // --pages is for the target's cache
  cache_ = make_cache(model, cache_layout(of_draft, places, capacity.requests));
  model_ = std::make_unique<Llama>(model, *cache_, LlamaOptions{.token_limit = files_.token_limit});
  make_sound(capacity);
}

// The drafter of a model that may be damaged.
void DraftSetup::make_sound(const Capacity& capacity) {
  drafter_ = std::make_unique<SoundDrafter>(
      drafting_.make(*model_, capacity, target_.config().vocab_size), tell_damage());
}

void DraftSetup::warn() const {
  if (!warning_.empty()) say("{}: warning: {}\n", stage_name(options_.stage), warning_);
}

SoundDrafter::Tell DraftSetup::tell_damage() const {
  const bool self = options_.draft_kind == DraftKind::kSelf;
  return [told = damage_is_told_, stage = options_.stage,
          name = options_.draft_kind == DraftKind::kHeads ? drafting_.heads
                 : self                                   ? options_.target
                        : options_.draft](const BadLogits& damage) {
    if (std::exchange(*told, true)) return;
    say("{}: note: {}: the draft's {}; the text goes on without its drafts\n", stage_name(stage),
        name, damage.about());
  };
}

// Loads a draft model, or a copy of the target with other weights (--draft-weights), or nothing.
void DraftSetup::load_own_model() {
  RunOptions options = options_;
  if (options.draft_kind == DraftKind::kLlama) {
    const Checkpoint checkpoint(options.draft);
    require_draft_fits(options_, files_, checkpoint);
    own_model_.reset(new LlamaModel(load_draft(options, checkpoint, target_.backend())));
  } else if (options.draft_kind == DraftKind::kSelf &&
             options.draft_weights != WeightFormat::kStored &&
             options.draft_weights != options.target_weights) {
    options.inflate_draft = options.inflate_target;  // the draft is the same model
    own_model_.reset(new LlamaModel(load_draft(options, files_.checkpoint, target_.backend())));
  } else {
    return;
  }
  const std::size_t draft_bytes = pass_bytes(*own_model_), target_bytes = pass_bytes(target_);
  if (draft_bytes >= target_bytes) {
    warning_ = fmt::format(
        "the draft reads {} bytes of weights per token, the target {}: speculation cannot pay",
        draft_bytes, target_bytes);
  }
}

void DraftSetup::make_table(const Capacity& capacity) {
  const std::vector<TokenId> text = read_draft_text(
      options_.draft_text.empty() ? embedded_draft_text().string() : options_.draft_text, options_,
      files_);
  model_ = std::make_unique<NgramModel>(
      target_.backend(), target_.config().vocab_size, files_.token_limit,
      options_.draft_kind == DraftKind::kUnigram ? 1 : 2, text, capacity.requests);
  drafter_ = drafting_.make(*model_, capacity, target_.config().vocab_size);
}

std::string DraftSetup::outgrown(int context) const {
  const int limit = drafter_->context_limit();
  if (context <= limit) return "";
  return fmt::format("the draft's context of {} tokens was full: plain steps followed\n", limit);
}

Json DraftSetup::to_json() const {
  if (options_.no_speculation) return nullptr;
  Json json = {{"kind", name_of(options_.draft_kind)}};
  const bool heads = options_.draft_kind == DraftKind::kHeads;
  if (heads) json["directory"] = drafting_.heads;
  if (heads || options_.drafts_in_parallel()) json["self_draft"] = name_of(options_.self_draft);
  if (!options_.markov.empty()) json["markov"] = options_.markov;
  if (own_model_) {
    const bool self = options_.draft_kind == DraftKind::kSelf;
    const std::string& shape = self ? options_.inflate_target : options_.inflate_draft;
    json["directory"] = self ? options_.target : options_.draft;
    json["weights"] = name_of(options_.draft_weights);
    json["weight_bytes"] = pass_bytes(*own_model_);
    if (!shape.empty()) json["inflated"] = shape;
  }
  for (const DraftSetup* other : beside_) json["beside"].push_back(other->to_json());
  return json;
}

}  // namespace specdec
