#include "stages/programs/self/heads_folder.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/checkpoint/safetensors.h"
#include "common/embedded_models.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

Json read_config(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  return parse_json(read_text_file(path), path.string());
}

constexpr const char* kTensors = "model.safetensors";

}  // namespace

fs::path named_folder(const std::string& name) {
  const fs::path named = embedded_heads() / name;
  const bool is_included = !fs::exists(name) && fs::exists(named);
  return is_included ? named : fs::path(name);
}

// Each published layout has a tensor whose name ends like this. A draft model may have its tensors
// in several files.
bool is_feature_layer(const fs::path& folder) {
  constexpr std::string_view kEnds[] = {"fc.weight", "hidden_norm.weight", "eh_proj.weight"};
  if (!fs::exists(folder / kTensors) && fs::exists(folder / "model.safetensors.index.json")) {
    return false;
  }
  const SafetensorsFile file(folder / kTensors);
  return std::ranges::any_of(file.header().tensors, [&](const TensorEntry& tensor) {
    return std::ranges::any_of(kEnds, [&](auto end) { return tensor.name.ends_with(end); });
  });
}

bool has_mask(const fs::path& folder) {
  return is_feature_layer(folder) && SafetensorsFile(folder / kTensors).contains("mask_hidden");
}

std::optional<SelfDraftKind> kind_of_heads(const fs::path& folder) {
  const Json root = read_config(folder);
  const JsonObject config(root, (folder / "config.json").string());
  if (config.has("medusa_num_layers")) return SelfDraftKind::kMedusa;
  if (config.has("num_lookahead_tokens")) return SelfDraftKind::kLookahead;
  if (config.string("model_type") == "blockwise") return SelfDraftKind::kBlockwise;
  if (is_feature_layer(folder)) {
    const bool masks = config.boolean("parallel_drafting").value_or(has_mask(folder));
    return masks ? SelfDraftKind::kParallel : SelfDraftKind::kFeature;
  }
  if (config.has("pard_token")) return SelfDraftKind::kParallel;
  return std::nullopt;
}

bool are_for(const IncludedHeads& heads, const std::string& target) {
  if (heads.model.empty()) return is_embedded_target(target);
  const fs::path folder = embedded_heads() / heads.name, checkpoint = fs::path(target) / "";
  if (checkpoint.parent_path().filename() != heads.model) return false;
  if (!fs::exists(folder / "config.json") || !fs::exists(checkpoint / "config.json")) return false;
  const Json made = read_config(folder), given = read_config(checkpoint);
  const JsonObject of_heads(made, folder.string()), of_target(given, target);
  return std::ranges::all_of(std::array{"hidden_size", "vocab_size"}, [&](const char* key) {
    return !of_heads.has(key) || of_heads.integer(key) == of_target.integer(key);
  });
}

fs::path heads_folder(const RunOptions& options) {
  if (!options.heads.empty()) return named_folder(options.heads);
  const auto* found = std::ranges::find_if(kIncludedHeads, [&](const IncludedHeads& heads) {
    return heads.kind == options.self_draft && are_for(heads, options.target);
  });
  return found == std::end(kIncludedHeads) ? fs::path() : embedded_heads() / found->name;
}

}  // namespace specdec
