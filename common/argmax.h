#pragma once
#include <span>

#include "common/base/token_id.h"

namespace specdec {

// The id of the largest logit, the lowest id among equals, like argmax() of common/language_model.h
// for rows in a backend's memory. Throws BadLogits if one is NaN. REQUIRES: at least one logit.
TokenId argmax(std::span<const float> logits);

// The same of probabilities. REQUIRES: at least one, and no NaN.
TokenId argmax(std::span<const double> probs);

}  // namespace specdec
