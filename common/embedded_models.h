#pragma once
#include <filesystem>

namespace specdec {

// The small trained pair that comes with the source (golden/models), so that every program runs
// with nothing to download.
inline std::filesystem::path embedded_target() { return SPECDEC_EMBEDDED_MODELS "/target"; }
inline std::filesystem::path embedded_draft() { return SPECDEC_EMBEDDED_MODELS "/draft"; }
// The text that n-gram drafters count: documents of the kinds that the pair was trained on, with
// their special tokens (golden/make_draft_text.py).
inline std::filesystem::path embedded_draft_text() {
  return SPECDEC_EMBEDDED_MODELS "/../draft_text.txt";
}

}  // namespace specdec
