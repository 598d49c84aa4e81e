#pragma once
#include <filesystem>

namespace specdec {

// The folder `golden` of the source, with the embedded models and the golden files: the one that
// SPECDEC_GOLDEN names, otherwise the nearest above the program, otherwise that of the source which
// the program was built from. So a program that was copied to another machine finds what was copied
// with it.
std::filesystem::path golden_folder();

}  // namespace specdec
