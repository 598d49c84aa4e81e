#include "stages/programs/speculation/session.h"

#include <nlohmann/json.hpp>

#include "stages/programs/cache/make_cache.h"
#include "stages/programs/check/tensor_log.h"
#include "stages/programs/run/device.h"
#include "stages/programs/run/load_model.h"
#include "stages/programs/show/report_extras.h"
#include "stages/programs/speculation/measure_costs.h"
#include "stages/programs/speculation/measure_steps.h"
#include "stages/programs/speculation/speedup.h"

namespace specdec {
namespace {

std::unique_ptr<KvCache> make_target_cache(const RunOptions& options, const LlamaModel& model,
                                           const SpeculationRoom& room) {
  check_pool(options, room.positions);
  return make_cache(model, cache_layout(options, room.positions));
}

bool adapts(const RunOptions& options) {
  return options.auto_spec_length && !options.no_speculation;
}

// The prompt, with room for all that is to come, so that no round allocates.
std::vector<TokenId> with_room(const std::vector<TokenId>& prompt, const SpeculationRoom& room) {
  std::vector<TokenId> context = prompt;
  context.reserve(static_cast<std::size_t>(room.positions + 1));
  return context;
}

}  // namespace

Session::Session(const RunOptions& options_, KeepProbs keep)
    : options(options_),
      request(read_request(options)),
      room(speculation_room(options, request, request)),
      backend(make_backend(options)),
      model(load_target(options, request.checkpoint, *backend)),
      draft(options, request, model, {.positions = room.positions}),
      profile(adapts(options) ? std::optional(cost_profile(options, request, model, draft))
                              : std::nullopt),
      cache(make_target_cache(options, model, room)),
      target(model, *cache, {.token_limit = request.token_limit}),
      steps(target, draft.drafter(), room.spec_length, room.context_limit, keep),
      log(options, request, *cache, draft),
      generation(request, request.tokenizer_or_null(), log.text().sink()),
      context(with_room(request.prompt, room)) {
  log.text().attach(generation);
  stats.accepted_at.reserve(static_cast<std::size_t>(room.spec_length));
  stats.drafted_at.reserve(static_cast<std::size_t>(room.spec_length));
  stats.rounds_by_drafted.reserve(static_cast<std::size_t>(room.spec_length) + 1);
  if (draft.warning()) {
    fmt::print(stderr, "{}: warning: {}\n", stage_name(options.stage), *draft.warning());
  }
  if (profile) adapt();
  if (!options.dump.empty()) record_forward(target, request.prompt).write(options.dump);
}

void Session::adapt() {
  steps.adapt(AdaptiveSpecLength(profile->round_costs(room.spec_length)));
  const bool people = options.output == "text" && !options.quiet;
  if (people) fmt::print(stderr, "{}", announcement(*profile, *steps.policy()));
}

void Session::finish(const Sampling& drafting,
                     const std::function<void(std::span<const TokenId> context)>& choose,
                     std::string_view rule, bool lossless) {
  count_target(stats, target.counters());
  stats.cache_bytes = static_cast<std::int64_t>(cache->memory().bytes());
  if (options.no_speculation) {  // what looked like rounds were plain steps
    stats.rounds = 0;
    stats.rounds_by_drafted.clear();
  }
  StepTimes times;
  if (!options.quiet || options.output == "json" || !options.report.empty()) {
    times = measure_steps(steps, context, static_cast<int>(request.prompt.size()), stats, drafting,
                          choose);
  }
  const Speedup gained = speedup(stats, times);
  ReportExtras extras;
  extras.fields = {{"draft", draft.to_json()},
                   {"spec_length", spec_length_json(options)},
                   {"acceptance", rule},
                   {"lossless", lossless}};
  add_to_json(extras.stats, stats, gained);
  if (!options.no_speculation) extras.summary = summary(stats, gained, times.samples);
  if (profile) {
    extras.fields["cost_profile"] = to_json(*profile);
    extras.summary += summary(*steps.policy(), stats);
  }
  extras.summary += draft.outgrown(static_cast<int>(context.size()));
  nlohmann::json trace_stats = to_json(stats);
  trace_stats.update(extras.stats);
  log.write(generation, trace_stats, rule, lossless);
  report(options, request, model.config(), generation, stats, backend->name(), extras);
}

}  // namespace specdec
