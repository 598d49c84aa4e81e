#include "common/speculation/round.h"

namespace specdec {

std::string_view round_end_name(RoundEnd end) {
  switch (end) {
    case RoundEnd::kAllAccepted:
      return "all accepted";
    case RoundEnd::kRejected:
      return "rejected";
    default:
      return "stopped";
  }
}

}  // namespace specdec
