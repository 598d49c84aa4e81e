#include "common/embedded_models.h"

namespace specdec {

std::filesystem::path embedded_target() { return SPECDEC_EMBEDDED_MODELS "/target"; }
std::filesystem::path embedded_draft() { return SPECDEC_EMBEDDED_MODELS "/draft"; }
std::filesystem::path embedded_heads() { return SPECDEC_EMBEDDED_MODELS "/../heads"; }
std::filesystem::path embedded_draft_text() { return SPECDEC_EMBEDDED_MODELS "/../draft_text.txt"; }

}  // namespace specdec
