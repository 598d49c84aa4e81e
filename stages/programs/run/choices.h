#pragma once
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/named.h"
#include "kernels/cuda_backend.h"
#include "kernels/ops.h"
#include "stages/programs/run/stages.h"

namespace specdec {

// What options let you choose from: for each list an enumeration and a table (see named.h), in the
// same order. Stages 5 and 8 have tables of their own, of their rules.
enum class DeviceChoice { kAuto, kCpu, kCuda, kEmulated };
enum class CacheKind { kContiguous, kPaged };
enum class OutputFormat { kText, kJson };
enum class DraftKind {
  kLlama,
  kSelf,
  kRandom,
  kUnigram,
  kBigram,
  kLookup,
  kNgram,
  kSuffix,
  kHeads
};
enum class DraftLength { kFixed, kGain, kEntropy, kConfidence, kSchedule, kSurvival };
enum class SelfDraftKind { kBlockwise, kMedusa, kLookahead, kFeature, kParallel };
enum class BeamStop { kFalse, kTrue, kNever };
enum class TreeKind { kChains, kDistinct, kTop, kBest, kGrow };

inline constexpr int kNoLastStage = std::numeric_limits<int>::max();

// An entry. Other tables' entries add what their readers need.
struct Named {
  std::string_view name;
  std::string_view summary = "";
  int since = 0;  // the first stage that has it
  int last = kNoLastStage;
};

inline constexpr Named kDevices[] = {{"auto"}, {"cpu"}, {"cuda", "", 2}, {"emulated", "", 2}};
inline constexpr Named kCaches[] = {{"contiguous"}, {"paged"}};
inline constexpr Named kKvTypes[] = {{"f32"}, {"bf16"}};
inline constexpr Named kOutputs[] = {{"text"}, {"json"}};
inline constexpr Named kGemms[] = {{"invariant"}, {"cublas"}};  // Tensor cores: in benchmarks.
inline constexpr Named kWeights[] = {{"stored"}, {"int8"}, {"q4"}};

// What a drafter makes its drafts of, and so what it costs; the dearest last.
enum class DraftNeeds { kNothing, kText, kModel, kRows };  // kRows: the target's

struct NamedDrafter {  // DraftSetup makes it
  std::string_view name, summary;
  DraftNeeds needs = DraftNeeds::kNothing;
  bool branches = true;  // drafts trees; otherwise one chain
  int since = kFirstDraftingStage;
  int last = kNoLastStage;
};
inline constexpr NamedDrafter kDrafters[] = {
    {"llama", "the draft model", DraftNeeds::kModel},
    {"self", "the target, or its int8 copy", DraftNeeds::kModel},
    {"random", "any tokens, for comparison", DraftNeeds::kNothing, false},
    {"unigram", "counts of tokens in a text", DraftNeeds::kText},
    {"bigram", "counts of pairs in a text", DraftNeeds::kText},
    {"lookup", "copies what followed the same tokens earlier in the text"},
    {"ngram", "learns from the text what follows what", DraftNeeds::kNothing, false,
     kFirstAdaptiveStage},
    {"suffix", "what followed most often in this text, and in texts that ended",
     DraftNeeds::kNothing, true, kFirstAdaptiveStage},
    {"heads", "the target itself, in the way of --self-draft", DraftNeeds::kRows, true,
     kFirstSelfStage}};

// How a target drafts for itself; SelfDraft makes the models.
inline constexpr Named kSelfDrafters[] = {
    {"blockwise", "one network on the newest row makes all heads' rows"},
    {"medusa", "a block for each head, on the newest row"},
    {"lookahead", "the target, in a pass of its own with trained tokens after the pending one", 0,
     kFirstBeamStage - 1},
    {"feature", "a layer on all rows, which sees the drafts: EAGLE, EAGLE-3 or MTP"},
    {"parallel", "a draft model or a layer that drafts all tokens in one pass, with mask tokens"}};

struct NamedPolicy {  // of K; make_policy() makes it
  std::string_view name, summary;
  bool asks_the_draft = false;  // for the draft model's distributions
  int since = kFirstAdaptiveStage;
};
inline constexpr NamedPolicy kPolicies[] = {
    {"fixed", "always --spec-length"},
    {"gain", "what pays; --spec-length auto means this"},
    {"entropy", "fewer where the draft model is unsure of the first token", true},
    {"confidence", "until the draft model finds no token likely", true},
    {"schedule", "longer after full acceptance, shorter otherwise"},
    {"survival", "until a draft is unlikely to be worth its costs, by the draft model's margin",
     true}};

// When a search of beams ends that has as many hypotheses as beams.
inline constexpr Named kBeamStops[] = {
    {"false", "if no beam would beat one of them by ending now; it may end too soon"},
    {"true", "at once, whatever the other beams may become"},
    {"never", "if no beam can ever beat one of them"}};

struct NamedTree {  // "chains:N"; tree_shape() makes it
  std::string_view name, sizes, summary;
  bool draws = false;  // its drafts, which at temperature 0 are all the same
  int since = kFirstTreeStage;

  constexpr bool of_widths() const { return sizes != "N"; }  // one for each level
};
inline constexpr NamedTree kTrees[] = {
    {"chains", "N", "N chains of K tokens, drawn independently", true},
    {"distinct", "3x2x1", "so many different tokens after each node of a level, drawn", true},
    {"top", "3x2x1", "so many likeliest tokens after each node of a level"},
    {"best", "N", "the N nodes, in up to K levels, that --tree-profile makes the best"},
    {"grow", "N", "the N nodes, in up to K levels, that the draft finds likeliest"}};

constexpr const auto& table_of(DeviceChoice) { return kDevices; }
constexpr const auto& table_of(CacheKind) { return kCaches; }
constexpr const auto& table_of(KvType) { return kKvTypes; }
constexpr const auto& table_of(OutputFormat) { return kOutputs; }
constexpr const auto& table_of(Gemm) { return kGemms; }
constexpr const auto& table_of(WeightFormat) { return kWeights; }
constexpr const auto& table_of(DraftKind) { return kDrafters; }
constexpr const auto& table_of(SelfDraftKind) { return kSelfDrafters; }
constexpr const auto& table_of(DraftLength) { return kPolicies; }
constexpr const auto& table_of(BeamStop) { return kBeamStops; }
constexpr const auto& table_of(TreeKind) { return kTrees; }

template <typename Enum>
constexpr const auto& entry_of(Enum choice) {
  return table_of(choice)[static_cast<std::size_t>(choice)];
}

template <typename Enum>
constexpr std::string_view name_of(Enum choice) {
  return entry_of(choice).name;
}

template <typename Enum>
constexpr std::optional<Enum> find_choice(std::string_view name) {
  const auto* entry = find_named(table_of(Enum()), name);
  if (entry == nullptr) return std::nullopt;
  return static_cast<Enum>(entry - std::data(table_of(Enum())));
}

// Whether its tokens are chosen, not drawn.
constexpr bool drafts_are_certain(DraftKind kind) {
  return kind == DraftKind::kLookup || kind == DraftKind::kNgram || kind == DraftKind::kSuffix;
}

constexpr bool needs_model(DraftKind kind) { return entry_of(kind).needs == DraftNeeds::kModel; }

// "llama or self".
inline std::string drafters_with_models() {
  return names_where(kDrafters, " or ",
                     [](const NamedDrafter& d) { return d.needs == DraftNeeds::kModel; });
}

}  // namespace specdec
