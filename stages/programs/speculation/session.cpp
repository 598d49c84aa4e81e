#include "stages/programs/speculation/session.h"

#include "common/base/json_value.h"
#include "common/speculation/count_round.h"
#include "kernels/int_size.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/check/tensor_log.h"
#include "stages/programs/run/draft_length.h"
#include "stages/programs/show/report_extras.h"
#include "stages/programs/speculation/measure_steps.h"
#include "stages/programs/speculation/speedup.h"

namespace specdec {
namespace {

CacheLayout layout_of(const Session& session) {
  const int positions = session.capacity.context + session.capacity.branches();
  check_pool(session.options, positions);
  return cache_layout(session.options, positions);
}

// The prompt, with memory reserved for the whole text, so that no round allocates.
std::vector<TokenId> with_memory(const std::vector<TokenId>& prompt, const Capacity& capacity) {
  std::vector<TokenId> context = prompt;
  context.reserve(capacity.context + 1);
  return context;
}

std::unique_ptr<SpecLengthPolicy> policy_of(const Session& session, const SessionParts& parts) {
  if (parts.make_policy && !session.options.no_speculation) return parts.make_policy(session);
  return fixed_spec_length(spec_length_of(session.options));
}

}  // namespace

Capacity session_capacity(const RunOptions& options, const ModelFiles& files,
                          const GenerationRequest& request, const RoundCapacity& of_round) {
  const int K = spec_length_of(options);
  Capacity capacity = of_round(K);
  capacity.context = static_cast<int>(std::min<std::int64_t>(
      context_limit(files, options),
      std::ssize(request.prompt) + std::int64_t{request.max_new_tokens} + K));
  return capacity;
}

Session::Session(const RunOptions& options_, const SessionParts& parts)
    : options(options_),
      files(open_model(options.target)),
      request(read_request(files, options)),
      capacity(session_capacity(options, files, request, parts.capacity)),
      target(options, files, layout_of(*this)),
      draft(options, files, target.model, capacity, parts.drafting, parts.compose),
      watched(draft.watch(target.llama, capacity)),
      clock(watched_target(target.llama, watched.get()), draft.drafter()),
      steps(clock.target(), clock.drafter(), policy_of(*this, parts), context_limit(files, options),
            draft.make_drafts(draft.drafter().capacity(spec_length_of(options)))),
      generation(request, files.tokenizer_or_null()),
      log(options, files, request, generation, *target.cache, draft),
      context(with_memory(request.prompt, capacity)) {
  const auto K = static_cast<std::size_t>(spec_length_of(options));
  stats.accepted_at.reserve(K);
  stats.drafted_at.reserve(K);
  stats.rounds_by_drafted.reserve(K + 1);
  rounds_.reserve(request.max_new_tokens);
  draft.warn();
  if (!options.dump.empty()) record_forward(target.llama, request.prompt).write(options.dump);
}

void Session::prefill() {
  const Stopwatch watch(stats.prefill_seconds);
  steps.prefill(context);
}

void Session::before_round() {
  log.before_round(steps, stats);
  clock.begin();
}

void Session::after_round(const Round& round, const RoundEvidence& evidence) {
  clock.end(round, stats);
  count_round(stats, round);
  rounds_.push_back({round.start, round.drafted});
  log.after_round(steps, round, context, evidence, stats);
}

void Session::finish(const Judgement& judgement, ReportExtras extras,
                     const std::function<std::string(const Speedup&)>& of_speedup) {
  count_target(stats, target.llama.counters());
  stats.cache_bytes = static_cast<std::int64_t>(target.cache->memory().bytes());
  if (options.no_speculation) {  // the rounds were plain steps
    stats.rounds = 0;
    stats.rounds_by_drafted.clear();
    rounds_.clear();
  }
  StepTimes times;
  if (!options.quiet || options.wants_json()) {
    times = measure_steps(steps, context, rounds_, judgement.drafting, judgement.choose);
  }
  const Speedup gained = speedup(stats, times);
  extras.fields.update({{"draft", draft.to_json()},
                        {"spec_length", spec_length_json(options)},
                        {"acceptance", judgement.rule},
                        {"lossless", judgement.lossless}});
  add_to_json(extras.stats, stats, gained);
  if (!options.no_speculation) {
    extras.summary = summary(stats, gained, times.samples) + extras.summary;
    if (of_speedup) extras.summary += of_speedup(gained);
  }
  extras.summary += draft.outgrown(int_size(context));
  Json trace_stats = to_json(stats);
  trace_stats.update(extras.stats);
  log.write(trace_stats, judgement.rule, judgement.lossless);
  report({options, files, request, target.model.config(), generation, stats, target.backend->name(),
          extras});
}

}  // namespace specdec
