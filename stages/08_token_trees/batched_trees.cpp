#include "stages/08_token_trees/batched_trees.h"

#include <algorithm>

#include "common/base/check.h"
#include "stages/06_batched_verification/draft_one_by_one.h"
#include "stages/08_token_trees/keep_path.h"

namespace specdec {

MostCached most_cached_with_trees(const BatchRequest& r, const TreeRoom& room,
                                  int draft_context_limit) {
  const std::int64_t prompt = std::ssize(r.generation.prompt);
  const std::int64_t last =
      prompt + r.generation.max_new_tokens - 2;  // where its last round begins
  // A tree needs a position behind the pending token, of the target; of the draft, a place for it.
  const std::int64_t last_tree =
      std::min<std::int64_t>({last, r.context_limit - 2, draft_context_limit - 1});
  if (r.spec_length == 0 || last_tree < prompt - 1) return {last + 1, 0};
  return {std::max(last, last_tree + room.verified) + 1, last_tree + room.nodes};
}

BatchTreeJudge::BatchTreeJudge(Backend& backend, const NamedSiblingRule& rule, int max_rows,
                               int vocab_size)
    : backend_(backend),
      rule_(rule),
      scratch_(std::make_shared<TreeJudgingScratch>(max_rows, vocab_size)) {}

SamplingTreeJudge BatchTreeJudge::judge_of(RequestState& r) const {
  const SpeculationOptions& options = r.request.speculation;
  return {backend_, r.dice, options.sampling, options.draft_temperature, rule_, scratch_};
}

void BatchTreeJudge::judge(std::span<const TreeToJudge> trees) {
  for (const auto& [r, tree, logits, round] : trees) {
    try {
      judge_of(*r).judge(*tree, logits, r->context, r->generation, *round);
    } catch (const Error& error) {
      r->failure = error.what();
    }
  }
}

TreeRounds::Place::Place(const TreeRoom& room, int vocab_size, Backend* memory)
    : tree(room, vocab_size, memory) {
  tokens.reserve(static_cast<std::size_t>(room.verified) + 1);
  parents.reserve(static_cast<std::size_t>(room.verified) + 1);
}

TreeRounds::TreeRounds(LanguageModel& target, TreeDrafter& drafter, BatchTreeJudge& judge,
                       int max_batch)
    : target_(target), drafter_(drafter), judge_(judge), logits_(target, max_batch * most_rows()) {
  const auto n = static_cast<std::size_t>(max_batch);
  places_.reserve(n);
  while (places_.size() < n) {
    places_.emplace_back(drafter.room(), target.vocab_size(), judge.memory());
  }
  requests_.reserve(n);
  drafting_.reserve(n);
  to_judge_.reserve(n);
  kept_.reserve(static_cast<std::size_t>(most_rows()));
}

// Of the request's next tree. Depth is what counts against both contexts.
int TreeRounds::levels(const RequestState& r) const {
  return round_spec_length(std::min(r.policy->next(), drafter_.room().levels), r.prefill_end(),
                           r.request.context_limit, drafter_.context_limit());
}

// How large a tree gets is not known before it is drafted, so its room counts.
RoundNeeds TreeRounds::needs(const RequestState& r) const {
  if (levels(r) == 0) return {};
  return {.rows = most_rows(), .drafted = drafter_.room().nodes};
}

MostCached TreeRounds::most_cached(const BatchRequest& request) const {
  return most_cached_with_trees(request, drafter_.room(), drafter_.context_limit());
}

// [snippet batched-trees]
void TreeRounds::draft(std::span<RequestState* const> batch) {
  requests_.clear();
  drafting_.clear();
  for (std::size_t i = 0; i < batch.size(); i++) {
    RequestState& r = *batch[i];
    Place& place = places_[i];
    place.request = r.id;
    place.tree.clear();
    place.round = {};
    place.round.start = target_.length(r.sequence);
    SPECDEC_CHECK(place.round.start == r.prefill_end(), "all but the pending token to be cached");
    const int most = levels(r);
    if (most == 0) continue;
    const SamplingTreeJudge judge = judge_.judge_of(r);
    requests_.push_back({r.draft_sequence, r.context, most, judge.drafting(),
                         judge.looks_behind_rejection(), &place.tree});
    drafting_.push_back(&r);
  }
  try {
    if (!requests_.empty()) drafter_.draft(requests_);
  } catch (const CacheFull&) {
    throw;
  } catch (const Error&) {  // logits that are no numbers, but whose?
    undo_draft(drafting_);
    draft_one_by_one<TreeRequest>(drafter_, requests_, drafting_);
  }
  for (std::size_t i = 0; i < batch.size(); i++) {
    places_[i].round.drafted = places_[i].tree.depth();
    batch[i]->round = places_[i].round;
  }
}

void TreeRounds::verify(std::span<RequestState* const> batch, std::span<const Prefill> prefills) {
  pass_.clear();
  round_rows_ = 0;
  for (std::size_t i = 0; i < batch.size(); i++) {
    if (batch[i]->failure) continue;
    pass_.push_back(segment(places_[i], *batch[i]));
    round_rows_ += places_[i].rows();
  }
  for (const auto& [r, tokens] : prefills) {
    const auto left = uncached(target_, r->sequence, r->context);
    pass_.push_back({r->sequence, left.first(static_cast<std::size_t>(tokens)), 0});
  }
  if (!pass_.empty()) target_.forward(pass_, logits_.rows(0, round_rows_));
}

// Each request goes along its own tree, by the rows of its own nodes.
void TreeRounds::judge(std::span<RequestState* const> batch) {
  to_judge_.clear();
  int row = 0;
  for (std::size_t i = 0; i < batch.size(); i++) {
    if (batch[i]->failure) continue;
    Place& place = places_[i];
    to_judge_.push_back({batch[i], &place.tree, logits_.rows(row, place.rows()), &place.round});
    row += place.rows();
  }
  judge_.judge(to_judge_);
  for (const TreeToJudge& tree : to_judge_) tree.request->round = *tree.round;
}

void TreeRounds::roll_back(RequestState& r) {
  r.policy->learn(r.round);
  keep_path(place_of(r).round, {target_, r.sequence, drafter_, r.draft_sequence}, kept_);
}
// [end snippet batched-trees]

void TreeRounds::undo_draft(std::span<RequestState* const> batch) {
  for (const RequestState* r : batch) {
    if (r->draft_sequence == RequestState::kNoSequence) continue;
    drafter_.truncate(r->draft_sequence, r->prefill_end());
  }
}

Segment TreeRounds::segment(Place& place, const RequestState& r) {
  place.tokens.assign(1, r.context.back());  // pending
  for (int node = 0; node < place.tree.size(); node++) {
    place.tokens.push_back(place.tree.node(node).token);
  }
  place.tree.segment_parents(place.parents);
  return {r.sequence, place.tokens, place.rows(), place.parents};
}

const TreeRounds::Place& TreeRounds::place_of(const RequestState& r) const {
  const auto place = std::ranges::find(places_, r.id, &Place::request);
  SPECDEC_CHECK(place != places_.end(), "request {} to have a round", r.id);
  return *place;
}

}  // namespace specdec
