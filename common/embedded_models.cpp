#include "common/embedded_models.h"

#include "common/golden_folder.h"

namespace specdec {

std::filesystem::path embedded_target() { return golden_folder() / "models/target"; }
std::filesystem::path embedded_draft() { return golden_folder() / "models/draft"; }
std::filesystem::path embedded_heads() { return golden_folder() / "heads"; }
bool is_embedded_target(const std::filesystem::path& folder) {
  std::error_code there_is_none;
  return std::filesystem::equivalent(folder, embedded_target(), there_is_none);
}
std::filesystem::path embedded_draft_text() { return golden_folder() / "draft_text.txt"; }

}  // namespace specdec
