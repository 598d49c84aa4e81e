#include "stages/programs/beams/beam_session.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/base/streams.h"
#include "common/speculation/count_round.h"
#include "kernels/int_size.h"
#include "stages/08_token_trees/lookup_tree_drafter.h"
#include "stages/programs/adaptive/drafters.h"
#include "stages/programs/beams/beam_report.h"
#include "stages/programs/beams/beam_text.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/run/draft_length.h"
#include "stages/programs/speculation/timing.h"

namespace specdec {
namespace {

constexpr int kMeasuredSteps = 12;   // plain steps after a run
constexpr int kUnmeasuredSteps = 3;  // the first ones, which have fewer beams

// Rows of the target's pass.
int most_rows(const RunOptions& options) {
  return options.beams + draft_width(options) * spec_length_of(options);
}

CacheLayout layout_of(const RunOptions& options, const Capacity& capacity) {
  const int positions = capacity.context + capacity.branches();
  check_pool(options, positions);
  return cache_layout(options, positions);
}

}  // namespace

std::unique_ptr<TargetRows> watch_beams(const DraftSetup& draft, Llama& target, Capacity capacity) {
  capacity.verified = capacity.nodes;  // all of them stay, and so do their rows
  return draft.watch(target, capacity);
}

std::unique_ptr<BeamDrafter> make_beam_drafter(const RunOptions& options, DraftSetup& draft,
                                               TargetRows* rows) {
  if (options.no_speculation) return std::make_unique<NoBeamDrafter>();
  if (!drafts_for_each(options)) {
    return std::make_unique<ModelBeamDrafter>(*draft.model(), draft_width(options),
                                              draft.tell_damage());
  }
  Drafter& each = draft.drafter();
  return std::make_unique<EachBeamDrafter>(
      each, draft.make_drafts(each.capacity(spec_length_of(options))), rows);
}

BeamSession::BeamSession(const RunOptions& options_)
    : options(options_),
      files(open_model(options.target)),
      request((check_beam_options(options, files), read_request(files, options))),
      capacity(beam_capacity(options, files, request)),
      target(options, files, layout_of(options, capacity)),
      self(options, spec_length_of(options)),
      draft(options, files, target.model, draft_capacity(options, capacity),
            self.parts(SessionParts{.drafting = beam_drafting(options)}).drafting),
      watched(watch_beams(draft, target.llama, capacity)),
      drafter(make_beam_drafter(options, draft, watched.get())),
      timed_target(watched_target(target.llama, watched.get())),
      timed_drafter(*drafter, options.trace.empty() ? nullptr : &log),
      rounds(timed_target, most_rows(options)),
      beams(std::in_place, timed_target, timed_drafter, beam_options(options),
            BeamDrafting{.width = draft_width(options),
                         .spec_length = spec_length_of(options),
                         .context_limit = context_limit(files, options)},
            request.prompt, request.eos_ids, request.max_new_tokens) {
  draft.warn();
}

void BeamSession::prefill() {
  const Stopwatch watch(stats.prefill_seconds);
  rounds.prefill(*beams);
}

void BeamSession::before_round() {
  drafting_ = timed_drafter.seconds();
  verifying_ = timed_target.seconds();
  if (!options.trace.empty()) log.begin(*beams);
  began_ = Stopwatch::now();
}

void BeamSession::after_round(const BeamRound& round) {
  const double seconds = Stopwatch::seconds_since(began_);
  const double drafting = timed_drafter.seconds() - drafting_;
  const double verifying = timed_target.seconds() - verifying_;
  stats.decode_seconds += seconds;
  count_round(stats, as_round(round, beams->search.finished()));
  kept += round.kept;
  passes_.push_back(verifying);
  if (round.drafted > 0) levels_.push_back(drafting / round.drafted);
  if (!options.trace.empty()) {
    log.end(
        round, beams->search,
        {{"draft", drafting}, {"verify", verifying}, {"other", seconds - drafting - verifying}});
  }
  if (options.explain) say_text(explain(round, stats.rounds, files.tokenizer_or_null()));
}

void BeamSession::finish() {
  const auto found = beams->search.hypotheses();
  const std::vector<Hypothesis> hypotheses(found.begin(), found.end());
  beams.reset();  // makes room for the measurement
  count_target(stats, target.llama.counters());
  stats.cache_bytes = static_cast<std::int64_t>(target.cache->memory().bytes());
  stats.draft_forwards = drafter->forwards();
  stats.draft_seconds = timed_drafter.seconds();
  stats.verify_seconds = timed_target.seconds() - stats.prefill_seconds;
  StepTimes times;
  if (!options.quiet || options.wants_json()) times = measure(hypotheses.front().tokens);
  report_beams({options, files, request, target.model.config(), draft, stats,
                target.backend->name(), hypotheses, kept, log, target.cache->page_size(), times});
}

// The parts of rounds: of the run on average, and of plain steps in the middle of the best text.
StepTimes BeamSession::measure(std::span<const TokenId> tokens) {
  const std::size_t half = tokens.size() / 2;
  const int steps = std::min(kMeasuredSteps, static_cast<int>(tokens.size() - half));
  if (steps <= kUnmeasuredSteps) return {};
  std::vector<TokenId> text = request.prompt;
  text.insert(text.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(half));
  NoBeamDrafter nothing;
  TimedModel model(target.llama);
  BeamRounds plain(model, options.beams);
  BeamRun run(model, nothing, beam_options(options), {.spec_length = 0}, text, {}, steps);
  plain.prefill(run);
  std::vector<double> passes, choices;
  for (int step = 0; !run.search.finished(); step++) {
    const double before = model.seconds();
    const double whole = seconds_of([&] { plain.round(run); });
    if (step < kUnmeasuredSteps) continue;
    passes.push_back(model.seconds() - before);
    choices.push_back(whole - passes.back());
  }
  const auto levels = static_cast<double>(stats.drafted);
  return {.target_pass = median(passes),
          .choice = median(choices),
          .draft_step = levels_.empty() ? 0 : median(levels_),
          .verification = median(passes_),
          .mean_draft = levels > 0 ? stats.draft_seconds / levels : 0,
          .plain_token = median(passes) + median(choices),
          .samples = int_size(passes)};
}

}  // namespace specdec
