#pragma once
#include "common/base/number_range.h"

namespace specdec {

// What the numbers of SamplingOptions may be.
inline constexpr NumberRange kTemperatures{.lowest = 0, .remark = "0: always the likeliest token"};
inline constexpr NumberRange kTopPs{
    .lowest = 0, .highest = 1, .above_lowest = true, .remark = "1: no limit"};
// Beyond these, a penalty only turns logits into infinities.
inline constexpr NumberRange kRepetitionPenalties{
    .lowest = 1e-3, .highest = 1e3, .remark = "1: no penalty"};

}  // namespace specdec
