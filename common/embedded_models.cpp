#include "common/embedded_models.h"

namespace specdec {

std::filesystem::path embedded_target() { return SPECDEC_EMBEDDED_MODELS "/target"; }
std::filesystem::path embedded_draft() { return SPECDEC_EMBEDDED_MODELS "/draft"; }
std::filesystem::path embedded_heads() {
  return embedded_target().parent_path().parent_path() / "heads";
}
bool is_embedded_target(const std::filesystem::path& folder) {
  std::error_code there_is_none;
  return std::filesystem::equivalent(folder, embedded_target(), there_is_none);
}
std::filesystem::path embedded_draft_text() { return SPECDEC_EMBEDDED_MODELS "/../draft_text.txt"; }

}  // namespace specdec
