#include "stages/programs/adaptive/all_places.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "common/sampling/uniform.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

// Tries the positions of one text in ascending order.
class Trier {
 public:
  Trier(Session& run, const Judge& judge)
      : run_(run),
        judge_(judge),
        drafts_(run.steps.drafts().alike()),
        logits_(run.steps.V()),
        target_probs_(logits_.size()),
        scratch_(run.steps.V()) {}

  // Tries a draft for token `at` of the context.
  TriedPlace try_place(int at) {
    const auto before = std::span(std::as_const(run_.context)).first(at);
    const DeviceRows row = run_.steps.logits_rows(1);
    run_.target.llama.forward(Segment{run_.steps.sequence(), before.last(1), 1}, row);
    const DraftRequest request{run_.steps.draft_sequence(), before, 1, judge_.drafting(), &drafts_};
    run_.draft.drafter().draft(std::span(&request, 1));
    if (drafts_.size() == 0) return {};
    Backend& backend = *run_.target.backend;
    const TokenId draft = drafts_.token(0);
    const SamplingOptions& options = judge_.judging();
    if (options.temperature == 0 && options.repetition_penalty == 1) {
      const bool same = argmax(backend, row) == draft;
      return {same ? 1.0 : 0.0, same};
    }
    backend.download(row.row(0), logits_.data(), logits_.size() * sizeof(float));
    probabilities(logits_, before, options, scratch_, target_probs_);
    return judged(draft, at);
  }

 private:
  TriedPlace judged(TokenId draft, int at) const {
    const auto index = static_cast<std::size_t>(draft);
    const std::span<const double> draft_probs = drafts_.probs(0);
    const double p = target_probs_[index], u = uniform(run_.options.seed, at, Purpose::kAccept);
    if (draft_probs.empty()) return {p, u < p};
    const double overlap = std::transform_reduce(
        draft_probs.begin(), draft_probs.end(), target_probs_.begin(), 0.0, std::plus(),
        [](double of_draft, double of_target) { return std::min(of_draft, of_target); });
    return {overlap, u * draft_probs[index] < p};
  }

  Session& run_;
  const Judge& judge_;
  Drafts drafts_;
  std::vector<float> logits_;
  std::vector<double> target_probs_;
  SamplingScratch scratch_;
};

}  // namespace

std::vector<TriedPlace> try_all_places(Session& run, const Judge& judge) {
  const int first = int_size(run.request.prompt);
  const int end = int_size(run.context);
  run.target.llama.truncate(run.steps.sequence(), first - 1);
  run.draft.drafter().truncate(run.steps.draft_sequence(), first - 1);
  Trier trier(run, judge);
  std::vector<TriedPlace> places;
  for (int at = first; at < end && at < run.draft.drafter().context_limit(); at++) {
    places.push_back(trier.try_place(at));
  }
  return places;
}

// [snippet oracle-run]
OracleRun oracle_run(std::span<const TriedPlace> places, int largest) {
  OracleRun run{.rounds = std::vector<int>(static_cast<std::size_t>(largest) + 1)};
  const auto n = int_size(places);
  for (int at = 0; at < n;) {
    int K = 0;  // drafts that are all accepted; the target's own token follows them
    while (K < largest && at + K < n && places[at + K].accepted) K++;
    run.rounds[K]++;
    run.drafted += K;
    run.emitted += std::min(K + 1, n - at);
    at += K + 1;
  }
  return run;
}
// [end snippet oracle-run]

int OracleRun::target_forwards() const { return std::reduce(rounds.begin(), rounds.end()); }

double OracleRun::speedup(std::span<const double> round_costs) const {
  return emitted / std::transform_reduce(rounds.begin(), rounds.end(), round_costs.begin(), 0.0);
}

void add_all_places(ReportExtras& extras, std::span<const TriedPlace> places, int largest,
                    std::span<const double> round_costs) {
  if (places.empty()) return;
  double sum = 0;
  for (const TriedPlace& place : places) sum += place.acceptance;
  const double alpha = sum / static_cast<double>(places.size());
  const OracleRun oracle = oracle_run(places, largest);
  const double tokens = static_cast<double>(oracle.emitted) / oracle.target_forwards();
  Json json = {{"drafted", oracle.drafted},
               {"target_forwards", oracle.target_forwards()},
               {"tokens_per_target_forward", tokens},
               {"speedup", nullptr}};
  extras.summary +=
      fmt::format("all {} places: alpha {:.3f}; an oracle: {:.2f} tokens per target forward",
                  places.size(), alpha, tokens);
  if (!round_costs.empty()) {
    const double speedup = oracle.speedup(round_costs);
    json["speedup"] = speedup;
    extras.summary += fmt::format(", {:.2f} times as fast by these costs", speedup);
  }
  extras.summary += "\n";
  extras.stats["places"] = places.size();
  extras.stats["alpha_all_places"] = alpha;
  extras.stats["oracle"] = json;
}

}  // namespace specdec
