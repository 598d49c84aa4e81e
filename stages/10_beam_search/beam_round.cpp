#include "stages/10_beam_search/beam_round.h"

#include <utility>

#include "common/speculation/round.h"
#include "kernels/int_size.h"

namespace specdec {

BeamRun::BeamRun(LanguageModel& target, BeamDrafter& drafter_, const BeamOptions& options,
                 const BeamDrafting& drafting_, std::span<const TokenId> prompt,
                 std::span<const TokenId> eos_ids, int max_new_tokens)
    : drafter(drafter_),
      drafting(drafting_),
      prompt_tokens(int_size(prompt)),
      search(options, eos_ids, max_new_tokens),
      tree(prompt),
      cache(target),
      leaves{0},
      scores{0} {}

int BeamRun::spec_length() const {
  const int start = prompt_tokens + search.length() - 1;
  return round_spec_length(drafting.spec_length, start, drafting.context_limit,
                           drafter.context_limit());
}

void BeamRun::close() {
  cache.close();
  if (draft_request != kNoRequest) drafter.release(draft_request);
  draft_request = kNoRequest;
}

void BeamRounds::prefill(BeamRun& run) {
  run.cache.prefill(run.tree);
  if (run.draft_request == BeamRun::kNoRequest) run.draft_request = run.drafter.create();
}

BeamRound BeamRounds::round(BeamRun& run) {
  const std::optional<BeamsToDraft> request = to_draft(run);
  if (request) run.drafter.draft(std::span(&*request, 1));
  const Segment segment = rows(run);
  const DeviceRows logits = logits_.rows(0, segment.logits_rows);
  target_.forward(segment, logits);
  BeamRound round = judge(run, target_.backend(), logits, 0);
  roll_back(run);
  return round;
}

std::optional<BeamsToDraft> BeamRounds::to_draft(BeamRun& run) {
  const int K = run.spec_length();
  if (K == 0) return std::nullopt;
  return BeamsToDraft{run.draft_request, &run.tree,          run.leaves, run.scores,
                      &run.search,       run.drafting.width, K,          &run.cache};
}

Segment BeamRounds::rows(BeamRun& run) {
  std::vector<int> nodes;
  for (int node = run.tree.first_leaf(); node < run.tree.size(); node++) nodes.push_back(node);
  return run.cache.feed(run.tree, nodes, int_size(nodes));
}

// [snippet judge-beams]
// Takes steps of the search, as long as the pass has computed logits after all of its beams.
// first_row: of the request's leaves and drafts.
BeamRound BeamRounds::judge(BeamRun& run, Backend& backend, ConstDeviceRows logits, int first_row) {
  const int first_node = run.tree.first_leaf();
  BeamRound round{.beams = int_size(run.leaves),
                  .start = run.search.length(),
                  .drafted = run.tree.levels(),
                  .rows = run.tree.size() - first_node,
                  .kept = first_node,
                  .hypotheses = int_size(run.search.hypotheses())};
  std::vector<int> nodes = run.leaves;
  // [task 10.2: go on while all beams have rows]
  bool goes_on = true;
  while (goes_on) {
    std::vector<BeamRow> beams;
    for (std::size_t i = 0; i < nodes.size(); i++) {
      beams.push_back({first_row + nodes[i] - first_node, run.scores[i]});
    }
    BeamStep step;
    step.candidates = best_continuations(backend, logits, beams, run.search.candidates());
    step.running = run.search.step(step.candidates, [&](const Continuation& ended) {
      std::vector<TokenId> tokens = run.tree.text_to(nodes[ended.beam]);
      tokens.push_back(ended.token);
      tokens.erase(tokens.begin(), tokens.begin() + run.prompt_tokens);
      return tokens;
    });
    step.hypotheses = int_size(run.search.hypotheses());
    run.scores.clear();
    std::vector<int> next;
    for (const auto& [beam, token, score] : step.running) {
      run.scores.push_back(score);
      if (run.tree.child(nodes[beam], token) == TextTree::kRoot) step.undrafted++;
      next.push_back(run.tree.add(nodes[beam], token));
    }
    nodes = std::move(next);
    goes_on = !run.search.finished() && step.undrafted == 0;
    round.steps.push_back(std::move(step));
  }
  // [end task 10.2]
  run.leaves = std::move(nodes);
  return round;
}
// [end snippet judge-beams]

// All caches keep what is above the leaves.
void BeamRounds::roll_back(BeamRun& run) {
  if (run.search.finished()) return;
  const std::vector<int> became = run.tree.keep(run.leaves);
  if (run.cache.is_open()) run.cache.keep(run.tree, became);
  if (run.draft_request != BeamRun::kNoRequest) {
    run.drafter.keep(run.draft_request, run.tree, became);
  }
  for (int& leaf : run.leaves) leaf = became[leaf];
}

Round as_round(const BeamRound& beams, bool finished) {
  const int accepted = int_size(beams.steps) - 1;
  Round round{.start = beams.start,
              .drafted = finished ? accepted : beams.drafted,
              .accepted = accepted,
              .end = RoundEnd::kAllAccepted};
  if (accepted < round.drafted) round.end = RoundEnd::kRejected;
  round.sum_acceptance_prob = accepted;
  return round;
}

}  // namespace specdec
