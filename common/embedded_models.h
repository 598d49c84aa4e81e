#pragma once
#include <filesystem>

namespace specdec {

// The small trained pair that comes with the source (golden/models), so that every program runs
// without a download.
std::filesystem::path embedded_target();
std::filesystem::path embedded_draft();
bool is_embedded_target(const std::filesystem::path& folder);
// The folder of the target's heads, a folder for each kind (golden/heads).
std::filesystem::path embedded_heads();
// The text that n-gram drafters count: documents of the kinds that the pair was trained on, with
// their special tokens (golden/make_draft_text.py).
std::filesystem::path embedded_draft_text();

}  // namespace specdec
