#include "stages/10_beam_search/beam_round.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/speculation/round.h"
#include "kernels/int_size.h"

namespace specdec {

BeamRun::BeamRun(LanguageModel& target, BeamDrafter& drafter_, const BeamOptions& options,
                 std::span<const TokenId> prompt, std::span<const TokenId> eos_ids,
                 int max_new_tokens)
    : drafter(drafter_),
      draft_request(drafter.create()),
      prompt_tokens(int_size(prompt)),
      search(options, eos_ids, max_new_tokens),
      tree(prompt),
      cache(target),
      leaves{0},
      scores{0} {}

void BeamRun::close() {
  cache.close();
  if (draft_request != kNoRequest) drafter.release(draft_request);
  draft_request = kNoRequest;
}

void BeamRun::open() {
  cache.open();
  if (draft_request == kNoRequest) draft_request = drafter.create();
}

BeamRounds::BeamRounds(LanguageModel& target, BeamDrafter& drafter, const BeamDrafting& drafting,
                       int max_rows)
    : target_(target), drafter_(drafter), drafting_(drafting), logits_(target, max_rows) {}

std::vector<BeamRound> BeamRounds::round(std::span<BeamRun* const> runs) {
  const std::vector<BeamsToDraft> requests = to_draft(runs);
  if (!requests.empty()) drafter_.draft(requests);
  verify(runs);
  std::vector<BeamRound> rounds;
  int row = 0;
  for (BeamRun* run : runs) {
    rounds.push_back(judge(*run, row));
    row += rounds.back().rows;
  }
  return rounds;
}

BeamRound BeamRounds::round(BeamRun& run) {
  BeamRun* const runs[] = {&run};
  return round(runs).front();
}

void BeamRounds::prefill(BeamRun& run) {
  run.open();
  run.cache.prefill(run.tree);
}

int BeamRounds::width(const BeamRun& run) const {
  return run.draft_width > 0 ? run.draft_width : drafting_.width;
}

bool BeamRounds::has_room(std::span<BeamRun* const> runs) const {
  std::vector<Extension> extensions;
  for (const BeamRun* run : runs) {
    const int nodes = int_size(run->leaves) + width(*run) * drafting_.spec_length;
    extensions.push_back(run->cache.extension(run->tree, nodes));
  }
  return target_.can_extend(extensions) && drafter_.has_room(to_draft(runs));
}

std::vector<BeamsToDraft> BeamRounds::to_draft(std::span<BeamRun* const> runs) const {
  std::vector<BeamsToDraft> requests;
  for (BeamRun* run : runs) {
    const int start = run->prompt_tokens + run->search.length() - 1;
    const int K = round_spec_length(drafting_.spec_length, start, drafting_.context_limit,
                                    drafter_.context_limit());
    if (K == 0) continue;
    requests.push_back(
        {run->draft_request, &run->tree, run->leaves, run->scores, &run->search, width(*run), K});
  }
  return requests;
}

// Runs one pass of the target over all leaves and drafts.
void BeamRounds::verify(std::span<BeamRun* const> runs) {
  std::vector<Segment> batch;
  int rows = 0;
  for (BeamRun* run : runs) {
    std::vector<int> nodes;
    for (int node = run->tree.first_leaf(); node < run->tree.size(); node++) nodes.push_back(node);
    batch.push_back(run->cache.feed(run->tree, nodes, int_size(nodes)));
    rows += int_size(nodes);
  }
  target_.forward(batch, logits_.rows(0, rows));
}

// [snippet judge-beams]
// Takes steps of the search, as long as the pass has computed logits after all of its beams.
// first_row: of the request's leaves and drafts.
BeamRound BeamRounds::judge(BeamRun& run, int first_row) {
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
    step.candidates = best_continuations(target_.backend(), logits_.rows(0, first_row + round.rows),
                                         beams, run.search.candidates());
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
  if (!run.search.finished()) keep(run, nodes);
  return round;
}
// [end snippet judge-beams]

// Ends a round: these nodes are the beams now, and all caches keep what is above them.
void BeamRounds::keep(BeamRun& run, std::span<const int> nodes) {
  const std::vector<int> became = run.tree.keep(nodes);
  run.cache.keep(run.tree, became);
  run.drafter.keep(run.draft_request, run.tree, became);
  run.leaves.clear();
  for (const int node : nodes) run.leaves.push_back(became[node]);
}

}  // namespace specdec
