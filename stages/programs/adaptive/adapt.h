#pragma once
#include <optional>
#include <string>

#include "stages/07_adaptive_drafting/adaptive_spec_length.h"
#include "stages/programs/adaptive/cost_profile.h"
#include "stages/programs/batch/batch_session.h"
#include "stages/programs/speculation/session.h"

namespace specdec {

// K by expected gain (--spec-length auto) for a run of one request: the costs of rounds are loaded
// or measured before the first one.
class AdaptiveRun {
 public:
  // For Session's parts. REQUIRES: this object outlives the Session.
  std::function<std::unique_ptr<SpecLengthPolicy>(const Session&)> make_policy();

  // Says on stderr what costs were found, unless --quiet or JSON asks for silence.
  void announce(const Session& run) const;
  // What the report says about costs and K; nothing for a fixed K.
  ReportExtras extras(const Session& run) const;

 private:
  std::optional<CostProfile> profile_;  // none: K is fixed
  const AdaptiveSpecLength* policy_ = nullptr;
};

// The same for a batch: costs are those of a full batch. How many requests there are in all is
// known beforehand, so costs, and with them texts, do not depend on which requests run side by
// side.
void adapt_requests(BatchSession& session);

}  // namespace specdec
