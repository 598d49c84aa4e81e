#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "common/base/json_value.h"
#include "common/llama.h"
#include "common/speculation/sound_drafter.h"
#include "stages/programs/run/options.h"
#include "stages/programs/run/request.h"

namespace specdec {

// K for a report: a number, 0 with --no-speculation, or "auto" where a policy chooses it.
Json spec_length_json(const RunOptions& options);

// Where drafts keep the distributions that they were drawn from. kNone: nowhere, drafting is
// greedy. kBesideLogits: in the backend's memory where it chooses tokens there, otherwise on the
// host.
enum class KeepProbs { kNone, kOnHost, kBesideLogits };

// Makes a drafter of a language model. capacity: of which it takes the requests and the context;
// vocab_size: of the drafts' distributions.
using MakeModelDrafter = std::function<std::unique_ptr<Drafter>(
    LanguageModel& model, const Capacity& capacity, int vocab_size)>;

std::unique_ptr<Drafter> make_greedy_drafter(LanguageModel& model, const Capacity& capacity,
                                             int vocab_size);

// How a stage drafts by a language model: stage 4 greedily, later stages by sampling.
struct Drafting {
  KeepProbs keep = KeepProbs::kNone;
  MakeModelDrafter make = make_greedy_drafter;
  std::function<std::unique_ptr<Drafter>()> make_ngram = {};   // where --draft-kind may be ngram
  std::function<std::unique_ptr<Drafter>()> make_lookup = {};  // none: a LookupDrafter
};

class DraftSetup;

// Makes a drafter of several parts, one of which is that of `base`, which outlives it.
using ComposeDrafter =
    std::function<std::shared_ptr<Drafter>(DraftSetup& base, const Capacity& capacity)>;

// The drafter that --draft-kind asks for, with the model and the cache that it stands on.
class DraftSetup {
 public:
  // Throws Error: a missing or bad draft; one whose vocabulary or special tokens are not the
  // target's, saying which; a text for the tables that cannot be read or has other tokens;
  // --draft-weights for a drafter that is no Llama.
  // REQUIRES: options, files and target outlive this object.
  DraftSetup(const RunOptions& options, const ModelFiles& files, const LlamaModel& target,
             const Capacity& capacity, const Drafting& drafting = {},
             const ComposeDrafter& compose = {});

  // The same drafter, without what it is composed with, and with memory of its own; weights are
  // shared.
  DraftSetup(const DraftSetup& other, const Capacity& capacity);

  // What drafts in a run: the one that was composed, or the only one.
  Drafter& drafter() { return composed_ ? *composed_ : *drafter_; }
  Drafter& own_drafter() const { return *drafter_; }  // that of --draft-kind
  LanguageModel* model() { return model_.get(); }     // that drafts; null: no model does
  // Memory for what it drafts for one request, with distributions where they are kept.
  Drafts make_drafts(const Capacity& capacity) const;
  const KvCache* cache() const { return cache_.get(); }  // of own_drafter(); null: it has none
  // The one that drafter() has to itself; null: none, or each of its parts has its own.
  KvCache* only_cache() { return composed_ ? nullptr : cache_.get(); }
  const ModelFiles& target_files() const { return files_; }
  const LlamaModel& target() const { return target_; }
  const LlamaModel* own_model() const { return own_model_.get(); }  // null: no weights of its own
  Json to_json() const;  // {"kind": ..., "directory": ..., "weights": ...}
  // A line for the end of a run that outgrew the draft's context; otherwise empty.
  std::string outgrown(int context) const;
  // Says on stderr, once, that this draft is damaged.
  SoundDrafter::Tell tell_damage() const;
  void warn() const;  // on stderr, where this draft cannot make the target faster

 private:
  void load_own_model();
  void make_drafter(const Capacity& capacity);
  void make_llama(const LlamaModel& model, const Capacity& capacity);
  void make_table(const Capacity& capacity);

  const RunOptions& options_;
  const ModelFiles& files_;  // the target's
  Drafting drafting_;
  const LlamaModel& target_;
  std::shared_ptr<const LlamaModel> own_model_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<Drafter> drafter_;
  std::shared_ptr<Drafter> composed_;
  std::string warning_;  // a line for people, or empty
  std::shared_ptr<bool> damage_is_told_ = std::make_shared<bool>(false);
};

}  // namespace specdec
