#pragma once
#include <array>
#include <string_view>

#include "stages/00_toy_speculation/toy_speculation.h"

// The two tables of the chapter.
namespace specdec::toy {

inline constexpr std::array<std::string_view, 4> kWords = {"the", "cat", "saw", "."};

// Chosen so that every case occurs: after "cat" the draft guesses a word that the target never
// says, after "saw" it never guesses one that the target says, and after "." both agree.
inline const Tables& example_tables() {
  static const Tables tables = {
      .target_probs = {{0.05, 0.70, 0.05, 0.20},  // after "the"
                       {0.00, 0.10, 0.60, 0.30},
                       {0.70, 0.15, 0.05, 0.10},
                       {0.60, 0.30, 0.10, 0.00}},
      .draft_probs = {{0.25, 0.45, 0.20, 0.10},
                      {0.20, 0.00, 0.40, 0.40},
                      {0.40, 0.30, 0.00, 0.30},
                      {0.60, 0.30, 0.10, 0.00}},
  };
  return tables;
}

}  // namespace specdec::toy
