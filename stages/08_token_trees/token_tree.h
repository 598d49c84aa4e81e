#pragma once
#include "common/speculation/drafts.h"

namespace specdec {

// The index of a draw (RandomSource) that tells it apart from those of other drafts of its level
// and, where a rule needs that, from those of other levels.
inline int draw_index(int level, int draft) { return level * 4096 + draft; }

// A draft goes on with `token` after the node `parent`. Returns the node of the token, a new one
// unless an earlier draft had the same. probs: the number of the distribution that the token was
// drawn from. REQUIRES: no other parent got a trial since this one's first; in ascending order of
// parents, level after level.
int add_trial(Drafts& tree, int parent, TokenId token, int probs, double token_prob);

}  // namespace specdec
