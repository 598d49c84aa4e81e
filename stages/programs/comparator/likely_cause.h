#pragma once
#include <span>
#include <string>

#include "stages/programs/comparator/upstream.h"

namespace specdec {

// Why a tensor may be wrong, in one or two sentences; "" if no mistake that we know gives these
// values. `bad_rows`: the rows that are out of tolerance. REQUIRES: `got` has the golden tensor's
// shape, and bad_rows is not empty.
std::string likely_cause(const Upstream& upstream, const Matrix& got,
                         std::span<const std::size_t> bad_rows, double tolerance);

}  // namespace specdec
