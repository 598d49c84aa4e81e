#pragma once
#include <span>

#include "common/base/token_id.h"

namespace specdec {

// The largest logit of a row, the lowest id among equals, as argmax() of common/language_model.h
// finds it in a backend's memory. Throws BadLogits where one is NaN. REQUIRES: a logit.
TokenId argmax(std::span<const float> logits);

// The same of probabilities. REQUIRES: at least one, and no NaN.
TokenId argmax(std::span<const double> probs);

}  // namespace specdec
