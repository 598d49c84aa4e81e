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
#include "stages/07_adaptive_drafting/rounds_within_budget.h"
#include "stages/07_adaptive_drafting/schedule_spec_length.h"
#include "stages/07_adaptive_drafting/spec_length_within_budget.h"
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
  const bool by_rows = is_fixed(options);
  return announcement(profile, by_rows ? "rows" : name_of(options.draft_length), policy.largest());
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
  if (options.given_rows) fail("--rows is for a batch: give --requests, --workload or --serve");
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
    if (options.suffix_memory > 0) {
      check_text_is_its_own(request.speculation, "--suffix-memory", "leave out --suffix-memory");
    }
    if (options.given_rows) check_rows(options, request);
    if (entry_of(options.draft_length).asks_the_draft) counts_estimates_ = true;
    if (counts_estimates_ || options.given_rows) asks_the_draft_ = true;
    const bool fixed = is_fixed(options) && !options.given_rows;
    if (fixed || request.spec_length == 0) return request;
    if (!first_ && !(is_fixed(options) && !options.auto_rows)) first_ = options;
    request.make_policy = [this, options, K = request.spec_length, own = request.capacity] {
      return policy_of(options, K, own ? own : capacity_);
    };
    return request;
  };
}

// Throws Error if the request's text would depend on the other requests, and that is not allowed.
void AdaptiveBatch::check_rows(const RunOptions& options, const BatchRequest& request) {
  if (!options.rows_change_texts) {
    check_text_is_its_own(request.speculation, "--rows", "allow it with --rows-change-texts");
  }
  if (options.rows_change_texts && !seeds_.insert(request.seed).second) {
    fail(
        "--seed {}: another request has it, too; with --rows-change-texts their draws would be the "
        "same, and the texts would not have the target's distribution: give each request its own",
        request.seed);
  }
}

std::unique_ptr<SpecLengthPolicy> AdaptiveBatch::policy_of(const RunOptions& options, int K,
                                                           const RoundCapacity& capacity) const {
  const int levels = std::min(most_levels(*draft_, K), capacity(K).levels);
  if (!is_fixed(options)) {
    auto policy = make_policy(options, levels, *profile_, counts_, capacity);
    if (!budget_) return policy;
    return std::make_unique<SpecLengthWithinBudget>(std::move(policy), budget_);
  }
  const std::vector<double> free(static_cast<std::size_t>(levels) + 1, 1.0);  // only estimates
  return std::make_unique<SpecLengthWithinBudget>(
      std::make_unique<SurvivalSpecLength>(survival_, free, 0), budget_);
}

BatchParts AdaptiveBatch::within_budget(BatchParts parts, const RunOptions& options) {
  if (!options.given_rows) return parts;
  parts.make_rounds = [this](const BatchSession& session) {
    const RunOptions& o = session.options;
    budget_ = std::make_shared<BatchBudget>(o.auto_rows ? std::nullopt : std::optional(o.rows),
                                            session.sizes.spec_length);
    survival_ = std::make_shared<SurvivalModel>(std::max(1, session.sizes.spec_length));
    return rounds_within(budget_);
  };
  if (!options.rows_change_texts) return parts;
  parts.judging = [judging = parts.judging](const BatchSession& session) {
    Judging fresh = judging(session);
    fresh.make_judge = [](Backend& backend, RandomSource& random, const SpeculationOptions& how,
                          const std::shared_ptr<JudgingScratch>& scratch) {
      return std::make_unique<FreshDraftsJudge>(backend, random, how, scratch);
    };
    return fresh;
  };
  return parts;
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
            .parts = adaptive.within_budget(adaptive_parts(options, drafting), options),
            .begin = [&](BatchSession& session) { adaptive.begin(session); }};
  });
}

void AdaptiveBatch::begin(BatchSession& session, const RoundCapacity& capacity) {
  add_drafters(session.extras, session.options, {}, {});
  session.extras.fields["cost_profile"] = nullptr;
  capacity_ = capacity;
  draft_ = &session.draft;
  if (!first_) return;
  profile_ =
      load_or_measure_costs(session.options, session.files, session.target.model, session.draft,
                            session.sizes.capacity.requests, session.sizes.spec_length);
  if (session.options.auto_rows) {
    budget_->set_costs({CostCurve(profile_->passes_by_rows),
                        CostCurve(profile_->first_drafts_by_requests),
                        CostCurve(profile_->next_drafts_by_requests)});
  }
  session.extras.fields["cost_profile"] = to_json(*profile_);
  session.announcement +=
      announcement_of(*profile_, *policy_of(*first_, session.sizes.spec_length, capacity), *first_);
}

void AdaptiveBatch::add_to(BatchSession& session) const {
  if (counts_estimates_) session.extras.fields["survival"] = to_json(*counts_);
  if (!budget_) return;
  const auto& [steps, offered, given, steps_by_given] = budget_->stats();
  const RunOptions& options = session.options;
  session.extras.fields["rows"] = {{"budget", options.auto_rows ? Json(kAuto) : Json(options.rows)},
                                   {"steps", steps},
                                   {"offered", offered},
                                   {"given", given},
                                   {"steps_by_given", steps_by_given}};
  if (steps == 0) return;
  const auto per_step = [steps = steps](std::int64_t count) {
    return static_cast<double>(count) / static_cast<double>(steps);
  };
  session.extras.summary +=
      fmt::format("rows for drafts: {:.1f} per step, of {:.1f} that were offered; at most {}\n",
                  per_step(given), per_step(offered), steps_by_given.size() - 1);
}

}  // namespace specdec
