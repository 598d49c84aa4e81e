#include "stages/programs/beams/beam_record.h"

#include <algorithm>
#include <utility>

#include "kernels/int_size.h"

namespace specdec {
namespace {

// What became of the candidate of this rank.
const char* fate(const BeamStep& step, int rank, const BeamSearch& search, bool is_last) {
  const Continuation& next = step.candidates[rank];
  if (std::ranges::find(step.running, next) != step.running.end()) return "runs on";
  const bool ends = is_last || search.is_eos(next.token);
  return ends && rank < search.options().width ? "ends" : "dropped";
}

Json to_json(const Continuation& next) {
  return {{"beam", next.beam}, {"token", next.token}, {"score", next.score}};
}

}  // namespace

void BeamLog::begin(const BeamRun& run) {
  tree_ = run.tree;
  nodes_ = run.leaves;
  scores_ = run.scores;
}

Json BeamLog::tree_json() const {
  const int first_draft = tree_->first_leaf() + int_size(nodes_);
  Json nodes = Json::array();
  for (int i = 0; i < tree_->size(); i++) {
    const auto& [token, parent] = tree_->node(i);
    const char* kind = i < tree_->first_leaf() ? "kept" : i < first_draft ? "beam" : "draft";
    nodes.push_back({{"token", token}, {"parent", parent}, {"kind", kind}});
  }
  return nodes;
}

// is_last: the step after which all texts end, because they are as long as they may be.
Json BeamLog::step_json(const BeamStep& step, const BeamSearch& search, bool is_last) {
  Json candidates = Json::array(), beams = Json::array();
  for (int rank = 0; rank < int_size(step.candidates); rank++) {
    candidates.push_back(to_json(step.candidates[rank]));
    candidates.back()["fate"] = fate(step, rank, search, is_last);
    tokens_.insert(step.candidates[rank].token);
  }
  std::vector<int> nodes;
  for (const Continuation& next : step.running) {
    nodes.push_back(tree_->child(nodes_[next.beam], next.token));
    beams.push_back(to_json(next));
    beams.back()["node"] = nodes.back() == TextTree::kRoot ? Json() : Json(nodes.back());
  }
  nodes_ = std::move(nodes);
  return {{"candidates", candidates},
          {"beams", beams},
          {"undrafted", step.undrafted},
          {"hypotheses", step.hypotheses}};
}

void BeamLog::end(const BeamRound& round, const BeamSearch& search, const Json& seconds) {
  Json beams = Json::array(), steps = Json::array();
  for (std::size_t i = 0; i < nodes_.size(); i++) {
    beams.push_back({{"node", nodes_[i]}, {"score", scores_[i]}});
  }
  for (int i = 0; i < tree_->size(); i++) tokens_.insert(tree_->node(i).token);
  Json json = {{"start", round.start},         {"text", tree_->text().size()},
               {"tree", tree_json()},          {"beams", beams},
               {"levels", round.drafted},      {"rows", round.rows},
               {"finished", search.finished()}};
  for (const BeamStep& step : round.steps) {
    steps.push_back(step_json(step, search, step.running.empty()));
  }
  json["steps"] = steps;
  json["seconds"] = seconds;
  rounds_.push_back(json);
}

}  // namespace specdec
