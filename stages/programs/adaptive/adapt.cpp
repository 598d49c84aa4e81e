#include "stages/programs/adaptive/adapt.h"

#include <algorithm>

#include "common/base/json_value.h"
#include "common/base/streams.h"
#include "stages/programs/adaptive/measure_costs.h"

namespace specdec {

std::function<std::unique_ptr<SpecLengthPolicy>(const Session&)> AdaptiveRun::make_policy() {
  return [this](const Session& run) -> std::unique_ptr<SpecLengthPolicy> {
    if (!run.options.auto_spec_length) return fixed_spec_length(run.room.spec_length);
    profile_ = load_or_measure_costs(run.options, run.files, run.model, run.draft);
    auto policy = std::make_unique<AdaptiveSpecLength>(profile_->round_costs(run.room.spec_length));
    policy_ = policy.get();
    return policy;
  };
}

void AdaptiveRun::announce(const Session& run) const {
  const bool people = run.options.output == OutputFormat::kText && !run.options.quiet;
  if (profile_ && people) say_text(announcement(*profile_, *policy_));
}

ReportExtras AdaptiveRun::extras(const Session& run) const {
  ReportExtras extras;
  if (!profile_) return extras;
  extras.fields["cost_profile"] = to_json(*profile_);
  extras.summary = summary(*policy_, run.stats);
  return extras;
}

void adapt_requests(BatchSession& session) {
  const auto adapts = [](const QueuedRequest& queued) {
    return queued.request && queued.options.auto_spec_length && queued.request->spec_length > 0;
  };
  session.extras.fields["cost_profile"] = nullptr;
  if (std::ranges::none_of(session.queue, adapts)) return;
  const CostProfile profile = load_or_measure_costs(session.options, session.files, session.model,
                                                    session.draft, session.sizes.max_batch);
  for (QueuedRequest& queued : session.queue) {
    if (!adapts(queued)) continue;
    queued.request->make_policy = [costs = profile.round_costs(queued.request->spec_length)] {
      return std::make_unique<AdaptiveSpecLength>(costs);
    };
  }
  session.extras.fields["cost_profile"] = to_json(profile);
  session.announcement =
      announcement(profile, AdaptiveSpecLength(profile.round_costs(session.sizes.spec_length)));
}

}  // namespace specdec
