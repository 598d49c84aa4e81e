#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "stages/programs/run/choices.h"
#include "stages/programs/run/options.h"

namespace specdec {

// Heads that come with the source, below golden/heads. --heads takes their names; of those of one
// model, the first of a kind is the default. model: the name of a checkpoint's folder; empty: the
// embedded target.
struct IncludedHeads {
  SelfDraftKind kind;
  std::string_view name;
  std::string_view model = "";
};
inline constexpr std::string_view kSmolLm2 = "SmolLM2-135M-Instruct";
inline constexpr IncludedHeads kIncludedHeads[] = {
    {SelfDraftKind::kBlockwise, "blockwise"},
    {SelfDraftKind::kMedusa, "medusa"},
    {SelfDraftKind::kLookahead, "lookahead"},
    {SelfDraftKind::kFeature, "mtp"},
    {SelfDraftKind::kFeature, "eagle3"},
    {SelfDraftKind::kFeature, "eagle"},
    {SelfDraftKind::kParallel, "parallel"},
    {SelfDraftKind::kFeature, "smollm2/eagle3", kSmolLm2},
    {SelfDraftKind::kMedusa, "smollm2/medusa", kSmolLm2}};

// The folder of this name: a path, or one of the included heads.
std::filesystem::path named_folder(const std::string& name);

// What the configuration or the tensors of such a folder tell; nullopt if they tell nothing. Throws
// Error if the folder cannot be read.
std::optional<SelfDraftKind> kind_of_heads(const std::filesystem::path& folder);

// Whether the folder has a feature layer, and whether the layer can also draft all tokens in one
// pass. Throw Error if the folder cannot be read.
bool is_feature_layer(const std::filesystem::path& folder);
bool has_mask(const std::filesystem::path& folder);

// Whether included heads were made for this target. A checkpoint is known by its folder's name, and
// has the sizes that the heads' configuration says.
bool are_for(const IncludedHeads& heads, const std::string& target);

// The folder that --heads names; without it, that of the included heads of the target that draft in
// the way of --self-draft, or an empty path.
std::filesystem::path heads_folder(const RunOptions& options);

}  // namespace specdec
