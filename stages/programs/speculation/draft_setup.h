#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/json_value.h"
#include "common/llama.h"
#include "common/speculation/sound_drafter.h"
#include "common/speculation/target_rows.h"
#include "stages/programs/run/options.h"
#include "stages/programs/run/request.h"

namespace specdec {

// K for a report: a number, 0 with --no-speculation, or "auto" if a policy chooses it.
Json spec_length_json(const RunOptions& options);

// Where drafts keep the distributions that they were drawn from. kNone: there are none, because
// drafting is greedy. kBesideLogits: in the backend's memory if it samples there, else on the host.
enum class KeepProbs { kNone, kOnHost, kBesideLogits };

// Makes a drafter from a draft model. capacity: only requests and context matter. vocab_size: V
// of the drafts' distributions.
using MakeModelDrafter = std::function<std::unique_ptr<Drafter>(
    LanguageModel& model, const Capacity& capacity, int vocab_size)>;

// The tokens of a file that a drafter counts. Throws Error if there are none that the model has.
std::vector<TokenId> read_draft_text(const std::string& path, const RunOptions& options,
                                     const ModelFiles& files);

std::unique_ptr<Drafter> make_greedy_drafter(LanguageModel& model, const Capacity& capacity,
                                             int vocab_size);

// Shows the target to a drafter that uses it. Returns what keeps the target's rows, for a drafter
// that reads them, or null.
using WatchTarget =
    std::function<std::unique_ptr<TargetRows>(Llama& target, const Capacity& capacity)>;

// What passes of the target go through: rows are kept if a drafter reads them.
inline LanguageModel& watched_target(Llama& target, TargetRows* rows) {
  return rows != nullptr ? static_cast<LanguageModel&>(*rows) : target;
}

// Bytes of the memory that heads take besides the target's. Omits what is small.
struct HeadsMemory {
  std::size_t weights = 0, cache = 0, logits = 0, activations = 0;
  std::size_t target_rows = 0;  // kept for them
};

// The model that a target's heads are, and how it sees the target. watch: REQUIRES the model.
struct HeadsOfTarget {
  std::unique_ptr<LanguageModel> model;
  WatchTarget watch;
  HeadsMemory memory;  // without the target's rows
};

// How a stage drafts: stage 4 greedily, later stages by sampling.
struct Drafting {
  KeepProbs keep = KeepProbs::kNone;
  // Where --draft-kind may be heads: what they are, and their folder.
  std::function<HeadsOfTarget(const ModelFiles& files, const LlamaModel& target,
                              const Capacity& capacity)>
      make_heads = {};
  std::string heads = {};
  MakeModelDrafter make = make_greedy_drafter;
  // Makes a drafter that learns from texts, if --draft-kind may be ngram or suffix.
  std::function<std::unique_ptr<Drafter>(const RunOptions& options, const ModelFiles& files)>
      make_learning = {};
  std::function<std::unique_ptr<Drafter>()> make_lookup = {};  // none: a LookupDrafter
};

class DraftSetup;

// Makes a drafter of several parts, one of which is base's drafter. REQUIRES: base outlives it.
using ComposeDrafter =
    std::function<std::shared_ptr<Drafter>(DraftSetup& base, const Capacity& capacity)>;

// The drafter that --draft-kind names, with its draft model and KV cache, if it has them.
class DraftSetup {
 public:
  // Throws Error for a draft model that is missing, damaged, or has other tokens than the target
  // (saying which); for a --draft-text that cannot be read or has tokens that the model lacks; for
  // --draft-weights without a draft model.
  // REQUIRES: options, files and target outlive this object.
  DraftSetup(const RunOptions& options, const ModelFiles& files, const LlamaModel& target,
             const Capacity& capacity, const Drafting& drafting = {},
             const ComposeDrafter& compose = {});

  // Another drafter of the same --draft-kind, with a cache of its own and shared weights. Nothing
  // is composed with it.
  DraftSetup(const DraftSetup& other, const Capacity& capacity);

  // The drafter of the run: the composed one if there is one, else own_drafter().
  Drafter& drafter() const { return composed_ ? *composed_ : *drafter_; }
  Drafter& own_drafter() const { return *drafter_; }  // the drafter of --draft-kind
  LanguageModel* model() { return model_.get(); }     // the draft model; null: none
  // Shows the target to the drafter. Returns what passes must go through from now on, or null, see
  // watched_target(). REQUIRES: this object outlives the last round.
  std::unique_ptr<TargetRows> watch(Llama& target, const Capacity& capacity) const {
    return watch_ ? watch_(target, capacity) : nullptr;
  }
  const HeadsMemory& heads_memory() const { return heads_memory_; }
  // The buffer for one request's drafts, with their distributions where KeepProbs says.
  Drafts make_drafts(const Capacity& capacity) const;
  const KvCache* cache() const { return cache_.get(); }  // of own_drafter(); null: it has none
  // The only cache of drafter(); null if it has none, or if it is composed of several parts.
  KvCache* only_cache() { return composed_ ? nullptr : cache_.get(); }
  const ModelFiles& target_files() const { return files_; }
  const LlamaModel& target() const { return target_; }
  const LlamaModel* own_model() const { return own_model_.get(); }  // null: no weights of its own
  // Notes that another draft model drafts beside this one. REQUIRES: this object's drafter owns it.
  void note_beside(const DraftSetup& other) { beside_.push_back(&other); }
  std::span<const DraftSetup* const> beside() const { return beside_; }
  Json to_json() const;  // {"kind": ..., "directory": ..., "weights": ...}
  // A line for the summary if a context of this many tokens outgrew the draft's; otherwise empty.
  std::string outgrown(int context) const;
  // A function that notes on stderr, once, that the draft model is damaged.
  SoundDrafter::Tell tell_damage() const;
  void warn() const;  // on stderr, if this draft cannot make decoding faster

 private:
  void load_own_model();
  void make_drafter(const Capacity& capacity);
  void make_llama(const LlamaModel& model, const Capacity& capacity);
  void make_sound(const Capacity& capacity);
  void make_table(const Capacity& capacity);

  const RunOptions& options_;
  const ModelFiles& files_;  // the target's
  Drafting drafting_;
  const LlamaModel& target_;
  std::shared_ptr<const LlamaModel> own_model_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<LanguageModel> model_;
  WatchTarget watch_;         // of model_, if it is heads
  HeadsMemory heads_memory_;  // the same
  std::unique_ptr<Drafter> drafter_;
  std::shared_ptr<Drafter> composed_;
  std::vector<const DraftSetup*> beside_;
  std::string warning_;  // of warn(); empty: none
  std::shared_ptr<bool> damage_is_told_ = std::make_shared<bool>(false);
};

}  // namespace specdec
