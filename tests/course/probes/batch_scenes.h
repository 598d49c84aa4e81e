#pragma once
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "stages/02_contiguous_kv_cache/contiguous_kv_cache.h"
#include "stages/03_paged_kv_cache/paged_kv_cache.h"
#include "stages/05_rejection_sampling/sampling_drafter.h"
#include "stages/06_batched_verification/scheduler.h"
#include "tests/course/probes/scenes.h"
#include "tests/paged_table_model.h"

// Many requests, for the probe of stage 6: on paged caches, without an engine.
namespace specdec::course {

inline constexpr int kVocab = 40, kPageSize = 4, kPositions = 128;

using Numbers = std::vector<int>;
using Lists = std::vector<Numbers>;

// Target and draft with a paged cache each; the draft mostly agrees.
struct World {
  World(std::uint64_t seed, int pages, int draft_pages)
      : backend(make_plain_backend()),
        target_cache(*backend, {1, 1, 1}, pages, kPageSize),
        draft_cache(*backend, {1, 1, 1}, draft_pages, kPageSize),
        target_rows(kVocab, seed, seed, 1),
        draft_rows(kVocab, seed, seed + 1, 0.8),
        target_table(target_cache, kVocab, target_or_nothing(), kPositions),
        draft_table(draft_cache, kVocab, draft_or_nothing(), kPositions),
        target(target_table),
        drafter(draft_table, kPositions + 1, 4) {}

  // A text that begins with kBroken makes the target say nothing, from 8 tokens on.
  static constexpr TokenId kBroken = kVocab - 1;
  TableModel::RowOf target_or_nothing() {
    return [this](std::span<const TokenId> prefix) -> std::span<const float> {
      if (prefix[0] != kBroken || prefix.size() < 8) return target_rows(prefix);
      return nothing;
    };
  }
  // The same for the draft, from the first token on, where it is broken.
  TableModel::RowOf draft_or_nothing() {
    return [this](std::span<const TokenId> prefix) -> std::span<const float> {
      return draft_is_broken && prefix[0] == kBroken ? nothing : draft_rows(prefix);
    };
  }
  bool draft_is_broken = false;

  std::unique_ptr<Backend> backend;
  PagedKvCache target_cache, draft_cache;
  Rows target_rows, draft_rows;
  std::vector<float> nothing = std::vector<float>(kVocab, std::nanf(""));
  PagedTableModel target_table, draft_table;
  WatchedModel target;
  SamplingDrafter drafter;
};

inline BatchRequest request_of(std::uint64_t seed, int prompt, int new_tokens, int K,
                               const SamplingOptions& sampling = {}) {
  return {.generation = {.prompt = tokens_of(seed, prompt, kVocab), .max_new_tokens = new_tokens},
          .speculation = {.sampling = sampling, .draft_temperature = sampling.temperature},
          .seed = seed,
          .spec_length = K,
          .context_limit = kPositions};
}

// Requests without an engine.
class Crowd {
 public:
  explicit Crowd(Backend& backend, int spec_length)
      : backend_(backend), scratch_(std::make_shared<JudgingScratch>(spec_length, kVocab)) {}

  RequestState& add(BatchRequest request) {
    const auto id = static_cast<RequestId>(states_.size());
    states_.push_back(std::make_unique<RequestState>(
        id, std::move(request), OnDelivery{}, nullptr,
        [this](RandomSource& dice, const SpeculationOptions& options) {
          return std::make_unique<Judge>(backend_, dice, options, scratch_);
        }));
    return *states_.back();
  }
  // As an engine does: all but the pending token is cached.
  RequestState& add_running(LanguageModel& target, Drafter& drafter, BatchRequest request) {
    RequestState& r = add(std::move(request));
    r.phase = Phase::kRunning;
    r.sequence = target.create();
    r.draft_sequence = r.request.spec_length > 0 ? drafter.create() : RequestState::kNoSequence;
    if (r.prefill_end() > 0) {
      target.forward(Segment{r.sequence, std::span(r.context).first(r.prefill_end()), 0}, {});
    }
    return r;
  }
  std::vector<RequestState*> all() const {
    std::vector<RequestState*> result;
    for (const auto& state : states_) result.push_back(state.get());
    return result;
  }

 private:
  Backend& backend_;
  std::shared_ptr<JudgingScratch> scratch_;
  std::vector<std::unique_ptr<RequestState>> states_;
};

inline Numbers ids_of(const auto& requests) {
  Numbers ids;
  for (const RequestState* r : requests) ids.push_back(static_cast<int>(r->id));
  return ids;
}

// A scheduler over pools, and what an engine does between its plans, by hand.
struct Floor {
  Floor(std::uint64_t seed, int pages, int draft_pages, const Scheduler::Options& options)
      : world(seed, pages, draft_pages),
        crowd(*world.backend, 4),
        target_pool(&world.target_cache, false, false),
        draft_pool(&world.draft_cache, false, false),
        rounds(world.target, world.drafter, {}, options.max_batch, 4),
        scheduler(options, world.target, rounds, target_pool, draft_pool) {}
  ~Floor() {
    for (RequestState* r : crowd.all()) scheduler.remove(*r);
  }

  void enqueue(BatchRequest request) { scheduler.enqueue(crowd.add(std::move(request))); }

  // Does what was planned; every round keeps `accepted` drafts.
  void work(const StepPlan& plan, int accepted) {
    rounds.prefill_drafts(plan.prefills);
    for (const Prefill& prefill : plan.prefills) {
      RequestState& r = *prefill.request;
      const auto left = uncached(world.target, r.sequence, r.context);
      world.target.forward(Segment{r.sequence, left.first(std::size_t(prefill.tokens)), 0}, {});
      if (rounds.is_prefilled(r)) r.phase = Phase::kRunning;
    }
    for (RequestState* r : plan.rounds) {
      const int start = r->prefill_end(), K = rounds.spec_length(*r);
      const Tokens drafts = tokens_of(r->request.seed + 5, K, kVocab);
      const auto fed = joined({r->context.back()}, drafts);
      world.target.forward(Segment{r->sequence, fed, 0}, {});
      if (K > 0) {
        const Tokens text = joined(r->context, std::span(drafts).first(std::size_t(K - 1)));
        const auto unseen = uncached(world.draft_table, r->draft_sequence, text);
        world.draft_table.forward(Segment{r->draft_sequence, unseen, 0}, {});
      }
      const int kept = std::min(accepted, K);
      r->context = joined(r->context, std::span(drafts).first(std::size_t(kept)));
      r->context.push_back(1);
      world.target.truncate(r->sequence, start + kept + 1);
      if (K > 0) world.drafter.truncate(r->draft_sequence, start + std::min(K, kept + 1));
    }
  }

  World world;
  Crowd crowd;
  KvPool target_pool, draft_pool;
  BatchedRounds rounds;
  Scheduler scheduler;
};

}  // namespace specdec::course
