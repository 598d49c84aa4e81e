#pragma once
#include <filesystem>

namespace specdec {

// Throws Error if the path leads to something that people take for a checkpoint in Hugging Face's
// layout, but that we cannot read: a file of weights, a model in another format, an adapter,
// quantised weights, a hub's cache. The message says what it is and what to do.
void refuse_other_folders(const std::filesystem::path& directory);

// Throws Error if the file is a link to a file that is gone, as in a hub's cache without blobs.
void refuse_dangling_link(const std::filesystem::path& file);

}  // namespace specdec
