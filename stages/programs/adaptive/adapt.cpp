#include "stages/programs/adaptive/adapt.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/json_value.h"
#include "common/base/streams.h"
#include "kernels/int_size.h"
#include "stages/07_adaptive_drafting/confidence_spec_length.h"
#include "stages/07_adaptive_drafting/entropy_spec_length.h"
#include "stages/07_adaptive_drafting/note_likely.h"
#include "stages/07_adaptive_drafting/schedule_spec_length.h"
#include "stages/07_adaptive_drafting/survival_spec_length.h"
#include "stages/programs/adaptive/all_places.h"
#include "stages/programs/adaptive/measure_costs.h"
#include "stages/programs/run/draft_length.h"

namespace specdec {
namespace {

constexpr int kFirstOfSchedule = 5;
constexpr double kHopefulAlpha = 0.9;

// costs: of rounds with up to `largest` drafts, at least.
std::unique_ptr<SpecLengthPolicy> make_unguarded(const RunOptions& options, int largest,
                                                 std::span<const double> costs, double c) {
  const int smallest = std::min(options.min_spec_length, largest);
  if (options.draft_length == DraftLength::kEntropy) {
    return std::make_unique<EntropySpecLength>(smallest, largest, options.entropy_smoothing);
  }
  if (options.draft_length == DraftLength::kConfidence) {
    return std::make_unique<ConfidenceSpecLength>(options.confidence, largest);
  }
  if (options.draft_length == DraftLength::kSurvival) {
    const auto known = costs.first(static_cast<std::size_t>(largest) + 1);
    return std::make_unique<SurvivalSpecLength>(std::make_shared<SurvivalModel>(largest),
                                                std::vector(known.begin(), known.end()), c);
  }
  return std::make_unique<ScheduleSpecLength>(
      smallest, std::clamp(kFirstOfSchedule, smallest, largest), largest);
}

// The largest K of a policy that knows no costs: --spec-length, or else the best K for drafts that
// are nearly always accepted.
int most_drafts(const RunOptions& options, std::span<const double> costs) {
  const int most = int_size(costs) - 1;
  if (options.given_spec_length) return most;
  return std::min(most,
                  std::max({1, options.min_spec_length, best_spec_length(kHopefulAlpha, costs)}));
}

// The most drafts in a row, of up to K: heads may have fewer.
int most_levels(const DraftSetup& draft, int K) { return draft.drafter().capacity(K).levels; }

bool is_fixed(const RunOptions& options) {
  return options.no_speculation || draft_length_of(options) == DraftLength::kFixed;
}

std::string announcement_of(const CostProfile& profile, const SpecLengthPolicy& policy,
                            const RunOptions& options) {
  if (const auto* gain = dynamic_cast<const AdaptiveSpecLength*>(&policy)) {
    return announcement(profile, *gain);
  }
  return announcement(profile, name_of(options.draft_length), policy.largest());
}

Judging judging_with_notes(const BatchSession& session) {
  check_notes(session.options, session.target.llama);
  return with_notes(batch_judging(session), *session.target.backend, session.options.ngram_fill);
}

}  // namespace

std::unique_ptr<SpecLengthPolicy> make_policy(const RunOptions& options, int largest,
                                              const CostProfile& profile,
                                              const std::shared_ptr<SurvivalCounts>& counts,
                                              const RoundCapacity& capacity) {
  std::vector<double> costs = profile.round_costs(largest, capacity);
  if (draft_length_of(options) == DraftLength::kGain) {
    return std::make_unique<AdaptiveSpecLength>(std::move(costs));
  }
  const int most = most_drafts(options, costs);
  auto policy = make_unguarded(options, most, costs, profile.c());
  if (counts && policy->gate() != nullptr) {
    policy = std::make_unique<CountedSpecLength>(std::move(policy), counts);
  }
  return std::make_unique<WhileItPays>(std::move(policy), std::move(costs), profile.c());
}

SessionParts AdaptiveRun::parts(const RunOptions& options, const Drafting& drafting,
                                const RoundCapacity& capacity) {
  capacity_ = capacity;
  return {.drafting = drafting,
          .compose = composition(options, drafting, &levels_),
          .make_policy = [this](const Session& run) { return make_policy(run); },
          .capacity = capacity};
}

std::unique_ptr<SpecLengthPolicy> AdaptiveRun::make_policy(const Session& run) {
  if (is_fixed(run.options)) return fixed_spec_length(spec_length_of(run.options));
  profile_ = load_or_measure_costs(run.options, run.files, run.target.model, run.draft);
  return specdec::make_policy(run.options, most_levels(run.draft, spec_length_of(run.options)),
                              *profile_, counts_, capacity_);
}

void AdaptiveRun::take_notes(const Session& run, RoundJudge& judge) {
  const int k = run.options.ngram_fill;
  if (k == 0) return;
  check_notes(run.options, run.target.llama);
  const auto first = int_size(run.request.prompt);
  judge.drafting().likely = std::make_shared<LikelyTokens>(k, first);
}

void AdaptiveRun::announce(const Session& run) const {
  const bool people = run.options.output == OutputFormat::kText && !run.options.quiet;
  if (profile_ && people) say_text(announcement_of(*profile_, run.steps.policy(), run.options));
}

void AdaptiveRun::try_places(Session& run, const Judge& judge, ReportExtras& extras) const {
  if (!run.options.all_places) return;
  const int most = run.steps.spec_length();
  std::vector<double> costs;
  if (profile_) costs = profile_->round_costs(most);
  add_all_places(extras, try_all_places(run, judge), most, costs);
}

ReportExtras AdaptiveRun::extras(const Session& run) const {
  ReportExtras extras;
  add_drafters(extras, run.options, levels_, run.stats);
  if (!profile_) return extras;
  if (run.steps.policy().gate() != nullptr) {
    extras.stats["refused"] = run.stats.refused;
    extras.fields["survival"] = to_json(*counts_);
  }
  extras.fields["draft_length"] = name_of(draft_length_of(run.options));
  extras.fields["largest_spec_length"] = run.steps.spec_length();
  extras.fields["cost_profile"] = to_json(*profile_);
  if (const auto* gain = dynamic_cast<const AdaptiveSpecLength*>(&run.steps.policy())) {
    extras.summary = summary(*gain, run.stats) + extras.summary;
  } else {
    extras.summary = summary(dynamic_cast<const WhileItPays&>(run.steps.policy()),
                             name_of(run.options.draft_length), run.stats) +
                     extras.summary;
  }
  return extras;
}

RoundEvidence adaptive_evidence(const Session& run, const Judge& judge) {
  RoundEvidence with_notes = evidence(judge, run.steps.drafts(), run.options.seed);
  const bool looked_at = run.options.explain || !run.options.trace.empty();
  if (looked_at) with_notes.notes = run.steps.policy().notes();
  return with_notes;
}

BatchParts adaptive_parts(const RunOptions& options, const Drafting& drafting) {
  BatchParts parts{.drafting = drafting, .compose = composition(options, drafting)};
  if (options.ngram_fill > 0) parts.judging = judging_with_notes;
  if (parts.compose && options.draft_pages > 0) {
    fail("--draft-pages is for one drafter; with --fallback or --draft-of-draft each has its own");
  }
  return parts;
}

MakeBatchRequest AdaptiveBatch::make_request(const MakeBatchRequest& make) {
  return [this, make](const ModelFiles& target, const RunOptions& options) {
    BatchRequest request = make(target, options);
    check_suffix_memory(options, request.speculation);
    if (entry_of(options.draft_length).asks_the_draft) asks_the_draft_ = true;
    if (is_fixed(options) || request.spec_length == 0) return request;
    if (!first_) first_ = options;
    request.make_policy = [this, options, K = request.spec_length, own = request.capacity] {
      return policy_of(options, K, own ? own : capacity_);
    };
    return request;
  };
}

std::unique_ptr<SpecLengthPolicy> AdaptiveBatch::policy_of(const RunOptions& options, int K,
                                                           const RoundCapacity& capacity) const {
  const int levels = std::min(most_levels(*draft_, K), capacity(K).levels);
  return make_policy(options, levels, *profile_, counts_, capacity);
}

MakeBatchRequest AdaptiveBatch::make_any_request(const ModelFiles& target, const RunOptions& usual,
                                                 const MakeBatchRequest& make) {
  const MakeBatchRequest adapted = make_request(make);
  adapted(target, usual);
  return
      [adapted, how = draft_length_of(usual)](const ModelFiles& files, const RunOptions& options) {
        if (!is_fixed(options) && draft_length_of(options) != how) {
          fail("--draft-length {}: this server chooses K by {}; start it with --draft-length {}",
               name_of(draft_length_of(options)), name_of(how), name_of(draft_length_of(options)));
        }
        return adapted(files, options);
      };
}

int serve_adaptive(const RunOptions& options) {
  AdaptiveBatch adaptive;
  return serve_run(options, [&](const ModelFiles& files, const RunOptions& usual) -> ServedStage {
    const MakeBatchRequest make = adaptive.make_any_request(files, usual);
    const Drafting drafting =
        adaptive_drafting(KeepProbs::kBesideLogits, adaptive.asks_the_draft());
    return {.make = make,
            .parts = adaptive_parts(options, drafting),
            .begin = [&](BatchSession& session) { adaptive.begin(session); }};
  });
}

void AdaptiveBatch::begin(BatchSession& session, const RoundCapacity& capacity) {
  add_drafters(session.extras, session.options, {}, {});
  session.extras.fields["cost_profile"] = nullptr;
  if (!first_) return;
  capacity_ = capacity;
  draft_ = &session.draft;
  profile_ = load_or_measure_costs(session.options, session.files, session.target.model,
                                   session.draft, session.sizes.capacity.requests);
  session.extras.fields["cost_profile"] = to_json(*profile_);
  session.announcement +=
      announcement_of(*profile_,
                      *make_policy(*first_, most_levels(session.draft, session.sizes.spec_length),
                                   *profile_, counts_, capacity),
                      *first_);
}

void AdaptiveBatch::add_to(BatchSession& session) const {
  if (asks_the_draft_) session.extras.fields["survival"] = to_json(*counts_);
}

}  // namespace specdec
