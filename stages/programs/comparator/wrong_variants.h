#pragma once
#include <functional>
#include <string>
#include <vector>

#include "stages/programs/comparator/upstream.h"

namespace specdec {

// A known mistake: in which tensors it shows first, what it is, and what that tensor then holds,
// worked out from the golden tensors before it. Where it cannot be worked out, or changes nothing
// in this model, it explains nothing and does no harm.
struct WrongVariant {
  std::vector<TensorKind> shows_in;
  std::string words;
  std::function<Matrix(const Upstream&)> compute;
};

// Where two of them give the same numbers, the likelier one comes first.
const std::vector<WrongVariant>& wrong_variants();

}  // namespace specdec
