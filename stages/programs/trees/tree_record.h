#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/json_value.h"
#include "stages/08_token_trees/tree_steps.h"
#include "stages/programs/speculation/round_record.h"

namespace specdec {

// A round with its tree and all that was decided in it, for --trace and --explain.
struct TreeRecord {
  struct Node {
    TokenTree::Node drafted;
    int drafts = 1;            // that go through it
    std::string_view verdict;  // "accepted", "rejected", "not tested", "not reached"
  };
  // Nodes are merged, trials are not.
  struct Trial {
    int node = 0;
    double draft_prob = 1;              // by what it was drawn from; 1: certain
    std::optional<double> target_prob;  // none: not tested
    std::string_view verdict;           // as of a node
  };
  struct Last {
    TokenId token = 0;
    bool bonus = false;  // otherwise the correction
    double target_prob = 0;
  };

  TreeRound round;
  std::vector<TokenId> emitted;
  std::vector<Node> nodes;
  std::vector<Trial> trials;  // in the order in which they are tested after their parent
  std::optional<Last> last;
  RoundRecord::State before, after;
  double draft_seconds = 0, verify_seconds = 0, other_seconds = 0;
};

// How a round was judged.
struct TreeJudging {
  SamplingOptions options;  // that made the target's distributions from its logits
  bool at_once = false;     // one token is compared with all siblings, as in greedy decoding
};

// steps: after the round. context: the text, the tokens emitted by the round at its end.
// REQUIRES: the tree's distributions are in host memory.
TreeRecord record_tree(const TreeSteps& steps, const TreeRound& round,
                       std::span<const TokenId> context, const TreeJudging& judging);

Json to_json(const TreeRecord& record);

}  // namespace specdec
