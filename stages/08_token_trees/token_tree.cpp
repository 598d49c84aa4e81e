#include "stages/08_token_trees/token_tree.h"

namespace specdec {

// [snippet add-trial]
int add_trial(Drafts& tree, int parent, TokenId token, int probs, double token_prob) {
  // [task 8.1: add a trial]
  const int known = tree.child(parent, token);
  const bool is_new = known == Drafts::kRoot;
  const int node = is_new ? tree.add_node(parent, token, token_prob) : known;
  tree.add_trial(node, probs);
  return node;
  // [end task 8.1]
}
// [end snippet add-trial]

}  // namespace specdec
