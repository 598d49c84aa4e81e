#include "stages/programs/run/stages.h"

#include <algorithm>
#include <iterator>

#include "common/base/check.h"

namespace specdec {

std::string stage_name(int stage) {
  const auto* found = std::ranges::find(kStages, stage, stage_number);
  SPECDEC_CHECK(found != std::end(kStages), "a stage of the list, not {}", stage);
  return std::string(*found);
}

}  // namespace specdec
