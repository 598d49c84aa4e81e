#include "tests/benchmarks/batch_decoding.h"

#include "common/base/error.h"
#include "common/run_stats.h"
#include "stages/programs/cache/make_cache.h"

namespace specdec {
namespace {

constexpr int kPrefillRows = 4096;  // all prompts in one step, so that the rest is rounds alone

std::unique_ptr<KvCache> cache_for(const BenchmarkTarget& target, int batch) {
  CacheLayout layout = cache_layout(target.options, target.positions);
  layout.pages *= batch;
  return make_cache(target.model, layout);
}

void add(EngineStats::BatchSize& sum, const EngineStats::BatchSize& one, int sign) {
  sum.steps += sign * one.steps;
  sum.rows += sign * one.rows;
  sum.emitted += sign * one.emitted;
  sum.seconds += sign * one.seconds;
  sum.draft_seconds += sign * one.draft_seconds;
  sum.verify_seconds += sign * one.verify_seconds;
}

}  // namespace

BatchDecoding::BatchDecoding(BenchmarkModels& models, const std::string& target,
                             const std::string& draft, int batch, int spec_length)
    : target_(models.target(target)),
      draft_(models.draft(target_, draft, batch)),
      batch_(batch),
      cache_(cache_for(target_, batch)),
      llama_(target_.model, *cache_, {.token_limit = target_.files.token_limit}),
      engine_({.target = llama_,
               .target_cache = *cache_,
               .drafter = draft_.drafter(),
               .draft_cache = draft_.cache(),
               .tokenizer = nullptr,
               .token_limit = target_.files.token_limit},
              {.max_batch = batch,
               .spec_length = spec_length,
               .token_budget = batch * (spec_length + 1) + kPrefillRows,
               .prefill_chunk = kPrefillRows,
               .prefix_cache = false}) {}

BatchRun BatchDecoding::run(std::span<const BenchmarkText> texts, int spec_length) {
  const EngineStats before = engine_.stats();
  std::vector<RequestId> ids;
  for (int i = 0; i < batch_; i++) {
    const BenchmarkText& text = texts[static_cast<std::size_t>(i) % texts.size()];
    ids.push_back(engine_.add_request({.generation = target_.request(text),
                                       .speculation = {},
                                       .spec_length = spec_length,
                                       .context_limit = llama_.max_seq_len()}));
  }
  while (!engine_.idle()) engine_.step();
  BatchRun run;
  for (int size = 1; size <= batch_; size++) {
    for (const auto& [stats, sign] : {std::pair(&engine_.stats(), 1), std::pair(&before, -1)}) {
      const auto& steps = stats->by_batch_size[static_cast<std::size_t>(size)];
      add(run.all, steps, sign);
      if (size == batch_) add(run.full, steps, sign);
    }
  }
  if (run.full.steps == 0) fail("no step had {} requests: give more --tokens", batch_);
  for (const RequestId id : ids) {
    const RunStats stats = engine_.take_result(id).stats.run;
    run.tested += stats.tested;
    run.accepted += stats.accepted;
  }
  return run;
}

}  // namespace specdec
