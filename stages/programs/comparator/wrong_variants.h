#pragma once
#include <functional>
#include <string>
#include <vector>

#include "stages/programs/comparator/upstream.h"

namespace specdec {

// A known mistake: the tensors in which it shows first, its description, and the values that such a
// tensor then has, computed from earlier golden tensors. If they cannot be computed, or are no
// different in this model, the mistake explains nothing.
struct WrongVariant {
  std::vector<TensorKind> shows_in;
  std::string words;
  std::function<Matrix(const Upstream&)> compute;
};

// If two mistakes give the same numbers, the likelier one comes first.
const std::vector<WrongVariant>& wrong_variants();

}  // namespace specdec
