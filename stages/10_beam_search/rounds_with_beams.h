#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "stages/06_batched_verification/batched_rounds.h"
#include "stages/10_beam_search/beam_round.h"

namespace specdec {

// What a request of a batch keeps if it is a search.
struct BeamsOfRequest : RequestExtension {
  BeamsOfRequest(const BeamOptions& options_, int draft_width_)
      : options(options_), draft_width(draft_width_) {}

  int most_rows(int spec_length) const { return options.width + draft_width * spec_length; }

  const BeamOptions options;
  const int draft_width;  // u
  std::optional<BeamRun> run = {};
  std::vector<Hypothesis> hypotheses = {};  // when the search has ended, the best first
};

// The search of a request; null if it has none.
BeamsOfRequest* beams_of(const RequestState& request);

// The most tokens that a search ever has in each cache: beams may have nothing in common but the
// prompt.
MostCached most_cached(const BatchRequest& request, const BeamsOfRequest& beams);

// The rounds of a batch in which some requests are searches, side by side with the others in all
// passes of the target. A search whose pages were taken keeps its texts and scores, and goes on
// with them. When it has ended, its best hypothesis is the request's text.
class RoundsWithBeams final : public BatchedRounds {
 public:
  // max_rows: of a pass. beam_drafter: if it has a model, that of `drafter`. Otherwise as
  // BatchedRounds.
  RoundsWithBeams(LanguageModel& target, Drafter& drafter, const Judging& judging, int max_batch,
                  int spec_length, std::shared_ptr<BeamDrafter> beam_drafter, int max_rows);

  Capacity needs(const RequestState& request) const override;
  int most_rows(const RequestState& request) const override;
  MostCached most_cached(const BatchRequest& request) const override;

  void draft(std::span<RequestState* const> batch) override;
  void verify(std::span<RequestState* const> batch, std::span<const Prefill> prefills) override;
  void judge(std::span<RequestState* const> batch) override;
  void roll_back(RequestState& request) override;
  void undo_draft(std::span<RequestState* const> batch) override;
  void forget(RequestState& request) override;
  void check_tokens(const RequestState& request) const override;
  std::int64_t draft_forwards() const override;

 private:
  void split(std::span<RequestState* const> batch);
  BeamRun& open_run(RequestState& request);
  void judge_beams(RequestState& request, int first_row);

  std::shared_ptr<BeamDrafter> beam_drafter_;
  int max_rows_;
  std::vector<RequestState*> texts_, searches_;  // of the batch
};

}  // namespace specdec
