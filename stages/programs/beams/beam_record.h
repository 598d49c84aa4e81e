#pragma once
#include <optional>
#include <set>
#include <vector>

#include "common/base/json_value.h"
#include "stages/10_beam_search/beam_round.h"

namespace specdec {

// The rounds of a search for --trace: the tree of each pass, the beams that it begins with, and for
// each step what was ranked and what became of it.
class BeamLog {
 public:
  // Call before a round, and after its drafts if there are any.
  void begin(const BeamRun& run);
  void note_drafts(const TextTree& tree) { tree_ = tree; }
  // Call after the round, with its seconds. REQUIRES: search is the run's.
  void end(const BeamRound& round, const BeamSearch& search, const Json& seconds);

  const Json& rounds() const { return rounds_; }
  const std::set<TokenId>& tokens() const { return tokens_; }  // that the rounds mention

 private:
  Json tree_json() const;
  Json step_json(const BeamStep& step, const BeamSearch& search, bool is_last);

  std::optional<TextTree> tree_;  // with the drafts of the round
  std::vector<int> nodes_;        // of the beams of the step, TextTree::kRoot: not drafted
  std::vector<double> scores_;    // of the beams before the round
  Json rounds_ = Json::array();
  std::set<TokenId> tokens_;
};

}  // namespace specdec
