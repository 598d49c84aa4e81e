#pragma once
#include <numeric>
#include <string>
#include <vector>

#include "stages/06_batched_verification/batch_engine.h"
#include "tests/course/probes/batch_scenes.h"
#include "tests/course/probes/facts.h"

// Whole runs of an engine, for the probe of stage 6.
namespace specdec::course {

inline constexpr int kMostSteps = 200;  // of a scene; one that takes more does not end

struct Arrival {
  BatchRequest request;
  int before_step = 1;
};

// Runs requests through an engine, and says what became of each and of the pages.
inline void serve(World& world, EngineOptions options, const std::vector<Arrival>& arrivals) {
  options.check_invariants = false;
  options.clock = [] { return 0.0; };
  BatchEngine engine({.target = world.target,
                      .target_cache = world.target_cache,
                      .drafter = world.drafter,
                      .draft_cache = &world.draft_cache},
                     options);
  Numbers finished, admitted, pages, lengths;
  const auto n = static_cast<int>(arrivals.size());
  int added = 0;
  for (int step = 1; step <= kMostSteps && (added < n || !engine.idle()); step++) {
    for (const Arrival& arrival : arrivals) {
      if (arrival.before_step == step) added += engine.add_request(arrival.request) >= 0;
    }
    const StepReport& report = engine.step();
    for (const auto& admission : report.admitted)
      admitted.push_back(static_cast<int>(admission.id));
    for (const RequestId id : report.finished) finished.push_back(static_cast<int>(id));
    for (const StepReport::Part& part : report.parts) lengths.push_back(part.length);
    pages.push_back(report.pages);
  }
  for (int id = 0; id < n; id++) {
    const bool ended = engine.has_result(id);
    const RequestResult result = ended ? engine.take_result(id) : RequestResult{};
    fact(fmt::format("tokens of request {}", id), result.tokens);
    fact(fmt::format("how request {} ended", id),
         ended ? std::string(finish_reason_name(result.finish_reason)) : "not at all");
    fact(fmt::format("rounds, tested, accepted of request {}", id),
         Numbers{int(result.stats.run.rounds), int(result.stats.run.tested),
                 int(result.stats.run.accepted)});
  }
  fact("requests in the order of their admissions", admitted);
  fact("requests in the order of their ends", finished);
  fact("pages in use after each step", pages);
  fact("tokens cached after each part of each step, as the reports say", lengths);
  fact("passes of the target", std::ssize(world.target.passes));
  fact("preemptions", engine.stats().preemptions);
  fact("tokens found in the prefix cache", engine.stats().prefix_tokens);
  const Numbers rows = world.target.rows();
  fact("tokens fed to the target in all", std::accumulate(rows.begin(), rows.end(), 0));
  engine.forget_prefixes();
  fact("pages leaked, of target and draft",
       Numbers{engine.target_pool().n_used(), engine.draft_pool().n_used()});
}

inline EngineOptions options_of(bool prefix_cache) {
  return {.max_batch = 4,
          .spec_length = 4,
          .token_budget = 40,
          .prefill_chunk = 6,
          .prefix_cache = prefix_cache};
}

inline std::vector<Arrival> guests(std::uint64_t seed) {
  const SamplingOptions sampled{.temperature = 1, .top_k = 8};
  const SamplingOptions penalised{.temperature = 0.8, .repetition_penalty = 1.5};
  return {{request_of(seed, 9, 14, 4)},
          {request_of(seed + 1, 3, 6, 2, sampled)},
          {request_of(seed + 2, 14, 10, 0)},
          {request_of(seed + 3, 5, 12, 4, penalised), 2},
          {request_of(seed + 4, 11, 9, 3, sampled), 3},
          {request_of(seed + 5, 2, 8, 4), 6}};
}

}  // namespace specdec::course
