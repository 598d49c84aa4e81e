#pragma once

namespace specdec {

// Used from stage 8 on: the index of a draw (RandomSource). It differs between the drafts of a
// level and, if a rule needs that, between levels.
inline int draw_index(int level, int draft) { return level * 4096 + draft; }

}  // namespace specdec
