#include "stages/programs/trees/tree_session.h"

#include <algorithm>

#include "common/base/json_value.h"
#include "common/base/streams.h"
#include "common/base/terminal.h"
#include "common/speculation/count_round.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/run/device.h"
#include "stages/programs/show/report.h"
#include "stages/programs/speculation/trace_file.h"
#include "stages/programs/trees/explain_tree.h"
#include "stages/programs/trees/make_tree_drafter.h"
#include "stages/programs/trees/shape_option.h"

namespace specdec {
namespace {

// K is the levels of a tree.
SpeculationRoom room_of_rounds(RunOptions options, const ModelFiles& files,
                               const GenerationRequest& request, const MakeTreeShape& shape) {
  options.spec_length = room_of_trees(options, shape).levels;
  return speculation_room(options, files, request);
}

std::unique_ptr<KvCache> make_target_cache(const RunOptions& options, const LlamaModel& model,
                                           int places) {
  check_pool(options, places);
  return make_cache(model, cache_layout(options, places));
}

std::unique_ptr<TreeJudge> make_judge(TreeSession& run) {
  const RunOptions& options = run.options;
  if (is_greedy(options)) return make_greedy_tree_judge(*run.backend, run.sizes);
  return make_tree_judge(run.places, *run.backend, run.dice, options.sampling,
                         options.draft_temperature.value_or(options.sampling.temperature),
                         find_sibling_rule(options.siblings), run.sizes);
}

}  // namespace

TreeSession::TreeSession(const RunOptions& options_)
    : options(options_),
      files(open_model(options.target)),
      request(read_request(files, options)),
      profile(read_tree_profile(options)),
      shape(shape_of(options, profile)),
      room(room_of_rounds(options, files, request, shape)),
      backend(make_backend(options)),
      model(load_target(options, files.checkpoint, *backend)),
      draft(options, files, model,
            {.positions = room.positions, .nodes = room_of_trees(options, shape).nodes}),
      places(tree_places(*backend, draft.model() ? &draft.model()->backend() : nullptr,
                         find_sibling_rule(options.siblings), looked_at())),
      drafter(make_tree_drafter(options, shape, draft, places,
                                {model.config().vocab_size, room.positions + 1})),
      sizes{drafter->room(), model.config().vocab_size, room.positions + 1, 1},
      cache(
          make_target_cache(options, model, room.positions + room_of_trees(options, shape).nodes)),
      target(model, *cache, {.token_limit = files.token_limit}),
      timed_target(target),
      timed_drafter(*drafter),
      steps(timed_target, timed_drafter, room.spec_length, room.context_limit, places.device),
      dice(options.seed),
      judge(make_judge(*this)),
      text(options),
      generation(request, files.tokenizer_or_null(), text.sink()),
      context(request.prompt) {
  text.attach(generation);
  context.reserve(static_cast<std::size_t>(room.positions) + 1);
  if (draft.warning()) say("{}: warning: {}\n", stage_name(options.stage), *draft.warning());
}

void TreeSession::prefill() {
  const Stopwatch watch(stats.prefill_seconds);
  steps.prefill(context);
}

RoundRecord::State TreeSession::state() const {
  return {
      cache_state(cache.get(), steps.sequence(), target.length(steps.sequence())),
      cache_state(draft.cache(), steps.draft_sequence(), drafter->length(steps.draft_sequence()))};
}

void TreeSession::before_round() {
  if (looked_at()) before_ = state();
  seconds_of_passes_ = timed_target.seconds();
  seconds_of_drafts_ = timed_drafter.seconds();
  round_began_ = Stopwatch::now();
}

void TreeSession::after_round(const TreeRound& round) {
  const RunStats before = stats;
  stats.decode_seconds += Stopwatch::seconds_since(round_began_);
  stats.verify_seconds += timed_target.seconds() - seconds_of_passes_;
  stats.draft_seconds += timed_drafter.seconds() - seconds_of_drafts_;
  stats.draft_forwards = drafter->forwards();
  count_round(stats, round);
  const TokenTree& tree = steps.tree();
  nodes_ += tree.size();
  trials_ += tree.n_trials();
  for (const int tested : round.tested_at) trials_tested_ += tested;
  for (const int node : round.path) {
    const std::size_t rank = rank_of(tree, node);
    if (accepted_by_rank_.size() <= rank) accepted_by_rank_.resize(rank + 1);
    accepted_by_rank_[rank]++;
  }
  if (!options.write_tree_profile.empty()) profile.count(tree, round);
  text.finish_round({.start = round.start, .accepted = round.accepted, .end = round.end},
                    Drafts(0, 0), nullptr);
  if (looked_at()) show(round, before);
}

// before: the counters before the round.
void TreeSession::show(const TreeRound& round, const RunStats& before) {
  // Greedy decoding has no probabilities; shown are those of the logits that it chose from.
  const bool greedy = is_greedy(options);
  const SamplingOptions sampling = greedy ? SamplingOptions{.temperature = 1} : options.sampling;
  TreeRecord record = record_tree(steps, round, context, {sampling, greedy});
  record.before = before_;
  record.after = state();
  record.draft_seconds = stats.draft_seconds - before.draft_seconds;
  record.verify_seconds = stats.verify_seconds - before.verify_seconds;
  record.other_seconds =
      stats.decode_seconds - before.decode_seconds - record.draft_seconds - record.verify_seconds;
  if (options.explain) {
    say_text(explain(record, static_cast<int>(stats.rounds), files.tokenizer_or_null(),
                     use_colour(stderr)));
  }
  if (!options.trace.empty()) records_.push_back(std::move(record));
}

void TreeSession::write_trace(const Json& extra_stats) const {
  TraceFile trace{.format = kTreeTrace,
                  .options = options,
                  .tokenizer = files.tokenizer_or_null(),
                  .request = request,
                  .generation = generation,
                  .rule = is_greedy(options) ? "greedy" : std::string_view(options.siblings),
                  .page_size = cache->page_size(),
                  .draft_page_size = draft.cache() ? draft.cache()->page_size() : 0,
                  .spec_length = room.spec_length,
                  .stats = to_json(stats)};
  trace.stats.update(extra_stats);
  for (const TreeRecord& record : records_) {
    for (const TreeRecord::Node& node : record.nodes) trace.tokens.insert(node.drafted.token);
    trace.rounds.push_back(to_json(record));
  }
  write(trace);
}

// The median of some passes over one token, behind the finished text.
double TreeSession::plain_step_seconds() {
  constexpr int kSamples = 9;
  const int length = target.length(steps.sequence());
  if (length < 2) return 0;
  std::vector<double> samples;
  const LogitsBuffer logits(target, 1);
  for (int i = 0; i < kSamples; i++) {
    target.truncate(steps.sequence(), length - 1);
    const auto began = Stopwatch::now();
    target.forward(
        Segment{steps.sequence(), std::span(context).subspan(std::size_t(length) - 1, 1), 1},
        logits.rows(0, 1));
    argmax(*backend, logits.rows(0, 1));
    samples.push_back(Stopwatch::seconds_since(began));
  }
  std::ranges::nth_element(samples, samples.begin() + kSamples / 2);
  return samples[kSamples / 2];
}

Json TreeSession::fields() const {
  return {{"draft", draft.to_json()},
          {"tree", options.no_speculation ? Json(nullptr) : Json(options.tree)},
          {"tree_profile", profile.levels.empty() ? Json(nullptr) : to_json(profile)},
          {"siblings", is_greedy(options) ? "greedy" : options.siblings},
          {"spec_length", options.no_speculation ? 0 : room.spec_length},
          {"lossless", true}};
}

void TreeSession::finish() {
  count_target(stats, target.counters());
  stats.cache_bytes = static_cast<std::int64_t>(cache->memory().bytes());
  ReportExtras extras;
  extras.fields = fields();
  if (options.no_speculation) {
    stats.rounds = 0;
    stats.rounds_by_drafted.clear();
  } else {
    const auto rounds = static_cast<double>(stats.rounds);
    const double step = options.quiet && !options.wants_json() ? 0 : plain_step_seconds();
    const double cost = stats.decode_seconds / rounds / std::max(step, 1e-12);
    const double per_round = static_cast<double>(stats.emitted) / rounds;
    extras.stats = {{"nodes", nodes_},
                    {"trials", trials_},
                    {"trials_tested", trials_tested_},
                    {"accepted_by_rank", accepted_by_rank_},
                    {"emitted_per_round", per_round},
                    {"plain_step_seconds", step},
                    {"speedup", per_round / cost}};
    extras.summary = fmt::format(
        "{} rounds of {:.1f} nodes: {:.2f} tokens per round, at the cost of {:.2f} plain steps: "
        "{:.2f}x plain decoding{}\n",
        stats.rounds, static_cast<double>(nodes_) / rounds, per_round, cost, per_round / cost,
        per_round < cost ? "; this tree does not pay here" : "");
    if (!places.why_on_host.empty() && backend->samples() && !is_greedy(options)) {
      extras.summary += fmt::format("the host judges: {}\n", places.why_on_host);
    }
  }
  if (!options.trace.empty()) write_trace(extras.stats);
  if (!options.write_tree_profile.empty()) write_tree_profile(profile, options.write_tree_profile);
  report({options, files, request, model.config(), generation, stats, backend->name(), extras});
}

}  // namespace specdec
