#include "stages/programs/beams/beam_session.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/base/error.h"
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

constexpr int kDraftBeams = 6;       // u by default
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

// A round as one of stage 4, where a token is a step of all beams. Levels of drafts after the end
// of a search count nowhere.
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

}  // namespace

BeamOptions beam_options(const RunOptions& options) {
  return {.width = options.beams,
          .length_penalty = options.length_penalty,
          .early_stopping = static_cast<EarlyStopping>(options.early_stopping)};
}

int draft_width(const RunOptions& options) {
  return options.draft_beams > 0 ? options.draft_beams : std::max(kDraftBeams, options.beams);
}

void check_beam_options(const RunOptions& options, const ModelFiles& files) {
  const int w = options.beams, u = draft_width(options);
  if (w > files.token_limit) {
    fail("--beams {}: the vocabulary has {} tokens, so a search never has so many beams", w,
         files.token_limit);
  }
  if (u < w && !options.no_speculation) {
    fail("--draft-beams {} is less than --beams {}: some beams would never be drafted", u, w);
  }
  if (options.num_return > w) {
    fail("--num-return {}: a search with --beams {} finds {} texts", options.num_return, w, w);
  }
  const int most = LlamaOptions().max_pass_rows;
  const auto rows = std::int64_t{w} + std::int64_t{u} * spec_length_of(options);
  if (rows > most) {
    fail("{} beams and {} x {} drafts are {} rows, and a pass has {}: reduce {}", w, u,
         spec_length_of(options), rows, most,
         options.no_speculation ? "--beams" : "--beams, --draft-beams or --spec-length");
  }
}

Capacity beam_capacity(const RunOptions& options, const ModelFiles& files,
                       const GenerationRequest& request) {
  const int K = spec_length_of(options), w = options.beams;
  const std::int64_t longest = std::ssize(request.prompt) + std::int64_t{request.max_new_tokens};
  const std::int64_t beside = std::int64_t{w - 1} * request.max_new_tokens;
  const std::int64_t drafts = std::int64_t{draft_width(options)} * K;
  if (longest + beside + drafts > 1 << 30) {
    fail("{} beams of {} tokens are more than any cache holds: reduce --beams or --max-new-tokens",
         w, request.max_new_tokens);
  }
  Capacity capacity = Capacity::of_chain(K);
  capacity.context =
      static_cast<int>(std::min<std::int64_t>(context_limit(files, options), longest + K));
  capacity.nodes = K + static_cast<int>(beside + drafts);
  capacity.requests = needs_model(options.draft_kind) ? 1 : w + 1;
  return capacity;
}

Drafting beam_drafting(const RunOptions& options) {
  Drafting drafting;
  drafting.make_ngram = adaptive_drafting(KeepProbs::kNone, false).make_ngram;
  const int each = std::max(1, draft_width(options) / options.beams);
  drafting.make_lookup = [each, levels = spec_length_of(options)] {
    return std::make_unique<LookupTreeDrafter>(
        LookupTreeDrafter::Options{.continuations = each, .levels = levels});
  };
  return drafting;
}

std::unique_ptr<BeamDrafter> make_beam_drafter(const RunOptions& options, DraftSetup& draft) {
  if (options.no_speculation) return std::make_unique<NoBeamDrafter>();
  if (draft.model() != nullptr) {
    return std::make_unique<ModelBeamDrafter>(*draft.model(), draft_width(options),
                                              draft.tell_damage());
  }
  Drafter& each = draft.drafter();
  return std::make_unique<EachBeamDrafter>(
      each, draft.make_drafts(each.capacity(spec_length_of(options))));
}

BeamSession::BeamSession(const RunOptions& options_)
    : options(options_),
      files(open_model(options.target)),
      request((check_beam_options(options, files), read_request(files, options))),
      capacity(beam_capacity(options, files, request)),
      target(options, files, layout_of(options, capacity)),
      draft(options, files, target.model, capacity, beam_drafting(options)),
      drafter(make_beam_drafter(options, draft)),
      timed_target(target.llama),
      timed_drafter(*drafter),
      rounds(timed_target, timed_drafter,
             {.width = draft_width(options),
              .spec_length = spec_length_of(options),
              .context_limit = context_limit(files, options)},
             most_rows(options)),
      beams(std::in_place, timed_target, timed_drafter, beam_options(options), request.prompt,
            request.eos_ids, request.max_new_tokens) {
  draft.warn();
}

void BeamSession::prefill() {
  const Stopwatch watch(stats.prefill_seconds);
  rounds.prefill(*beams);
}

void BeamSession::before_round() {
  drafting_ = timed_drafter.seconds();
  verifying_ = timed_target.seconds();
  began_ = Stopwatch::now();
}

void BeamSession::after_round(const BeamRound& round) {
  stats.decode_seconds += Stopwatch::seconds_since(began_);
  count_round(stats, as_round(round, beams->search.finished()));
  kept += round.kept;
  passes_.push_back(timed_target.seconds() - verifying_);
  if (round.drafted > 0) {
    levels_.push_back((timed_drafter.seconds() - drafting_) / round.drafted);
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
                target.backend->name(), hypotheses, kept, times});
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
  BeamRounds plain(model, nothing, {.spec_length = 0}, options.beams);
  BeamRun run(model, nothing, beam_options(options), text, {}, steps);
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
