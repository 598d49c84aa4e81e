#include "stages/programs/batch/batch_session.h"

#include <utility>

#include "common/base/streams.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/run/device.h"
#include "stages/programs/run/load_model.h"

namespace specdec {
namespace {

std::unique_ptr<KvCache> make_target_cache(const RunOptions& options, const LlamaModel& model,
                                           const BatchSizes& sizes) {
  CacheLayout layout = cache_layout(options, sizes.capacity.context);
  layout.pages = sizes.pages;
  layout.sequences = sizes.capacity.requests;
  return make_cache(model, layout);
}

const LlamaModel* draft_model(const BatchSizes& sizes, const DraftSetup& draft,
                              const LlamaModel& target) {
  if (!sizes.draft_is_model) return nullptr;
  return draft.own_model() ? draft.own_model() : &target;
}

}  // namespace

std::shared_ptr<BatchJudge> make_batch_judge(const BatchSession& session) {
  Backend& backend = *session.backend;
  if (!backend.samples()) return std::make_shared<BatchJudge>();
  const LanguageModel& target = session.target;
  return std::make_shared<DeviceBatchJudge>(backend, session.sizes.capacity.requests,
                                            session.sizes.spec_length, target.vocab_size(),
                                            target.max_seq_len(), overlaps_for(session.options));
}

BatchSession::BatchSession(const RunOptions& options_, ModelFiles files_, const BatchParts& parts)
    : options(options_),
      files(std::move(files_)),
      backend(make_backend(options)),
      model(load_target(options, files.checkpoint, *backend)),
      sizes(batch_sizes(options, model.config().max_seq_len, parts.capacity)),
      draft(options, files, model, sizes.capacity, parts.drafting),
      drafter(compose_drafter(options.no_speculation ? ComposeDrafter() : parts.compose, draft,
                              sizes.capacity)),
      memory(memory_plan(options, sizes, model, draft_model(sizes, draft, model))),
      cache(make_target_cache(options, model, sizes)),
      target(model, *cache,
             {.token_limit = files.token_limit, .max_pass_rows = sizes.token_budget}),
      judge(parts.make_judge(*this)),
      engine({.target = target,
              .target_cache = *cache,
              .drafter = *drafter,
              .draft_cache = drafter.get() == &draft.drafter() ? draft.cache() : nullptr,
              .tokenizer = files.tokenizer_or_null(),
              .token_limit = files.token_limit,
              .judge = judge.get()},
             {.max_batch = sizes.capacity.requests,
              .spec_length = sizes.spec_length,
              .max_cached = sizes.capacity.context,
              .token_budget = sizes.token_budget,
              .prefill_chunk = options.prefill_chunk,
              .prefix_cache = !options.no_prefix_cache}) {
  if (draft.warning()) {
    say("{}: warning: {}\n", stage_name(options.stage), *draft.warning());
  }
}

}  // namespace specdec
