#pragma once
#include "common/sampling/draw_index.h"
#include "common/speculation/drafts.h"

namespace specdec {

// Adds a draft that continues with `token` after the node `parent`. Returns the token's node, which
// is new unless an earlier draft had the same token there. probs: the number of the distribution
// that the token was drawn from, or Drafts::kCertain. token_prob: its probability under the draft
// model. REQUIRES: trials are added level by level, in ascending order of parents.
int add_trial(Drafts& tree, int parent, TokenId token, int probs, double token_prob);

}  // namespace specdec
