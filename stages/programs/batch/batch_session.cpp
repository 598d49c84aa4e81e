#include "stages/programs/batch/batch_session.h"

#include <algorithm>
#include <utility>

#include "common/base/error.h"
#include "common/base/streams.h"
#include "stages/programs/batch/workload.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/run/device.h"
#include "stages/programs/run/load_model.h"

namespace specdec {
namespace {

std::vector<QueuedRequest> read_queue(const RunOptions& options, const ModelFiles& target) {
  if (!options.requests.empty()) return read_requests(options.requests, options);
  const bool has_prompt = options.has_prompt || options.is_chat() || !options.prompt_ids.empty();
  if (has_prompt) return {{.id = "0", .options = options, .arrival = 0, .where = "the prompt"}};
  return make_workload(options.workload.empty() ? kDefaultWorkload : options.workload, options,
                       target);
}

std::vector<BatchRequest> good_ones(std::span<const QueuedRequest> queue) {
  std::vector<BatchRequest> requests;
  for (const QueuedRequest& queued : queue) {
    if (queued.request) requests.push_back(*queued.request);
  }
  return requests;
}

// No drafter is made where no request drafts.
RunOptions with_drafts_if_any(RunOptions options, std::span<const QueuedRequest> queue) {
  options.no_speculation = std::ranges::none_of(queue, [](const QueuedRequest& queued) {
    return queued.request && queued.request->spec_length > 0;
  });
  return options;
}

std::unique_ptr<KvCache> make_target_cache(const RunOptions& options, const LlamaModel& model,
                                           const BatchSizes& sizes) {
  CacheLayout layout =
      cache_layout(options, static_cast<int>(std::max<std::int64_t>(sizes.longest, 1)));
  layout.pages = sizes.pages;
  layout.sequences = sizes.max_batch;
  return make_cache(model, layout);
}

DraftRoom draft_room(const BatchSizes& sizes) {
  return {.positions = static_cast<int>(std::max<std::int64_t>(sizes.longest, 1)),
          .requests = sizes.max_batch,
          .pages = sizes.draft_pages,
          .branches = sizes.round.branches()};
}

const LlamaModel* draft_model(const BatchSizes& sizes, const DraftSetup& draft,
                              const LlamaModel& target) {
  if (!sizes.draft_is_model) return nullptr;
  return draft.own_model() ? draft.own_model() : &target;
}

}  // namespace

std::vector<QueuedRequest> queue_requests(const RunOptions& options, const ModelFiles& target,
                                          const MakeBatchRequest& make) {
  std::vector<QueuedRequest> queue = read_queue(options, target);
  for (QueuedRequest& queued : queue) {
    try {
      queued.request = make(target, queued.options);
    } catch (const Error& error) {
      if (options.requests.empty()) throw;  // it is the command line that is wrong
      queued.error = error.what();
    }
  }
  return queue;
}

std::shared_ptr<BatchJudge> make_batch_judge(const BatchSession& session) {
  Backend& backend = *session.backend;
  if (!backend.samples()) return std::make_shared<BatchJudge>();
  const LanguageModel& target = session.target;
  return std::make_shared<DeviceBatchJudge>(backend, session.sizes.max_batch,
                                            session.sizes.spec_length, target.vocab_size(),
                                            target.max_seq_len(), overlaps_for(session.options));
}

BatchSession::BatchSession(const RunOptions& options_, std::vector<QueuedRequest> requests,
                           ModelFiles files_, const BatchParts& parts)
    : options(with_drafts_if_any(options_, requests)),
      files(std::move(files_)),
      queue(std::move(requests)),
      backend(make_backend(options)),
      model(load_target(options, files.checkpoint, *backend)),
      sizes(batch_sizes(options, good_ones(queue), parts.capacity)),
      draft(options, files, model, draft_room(sizes), parts.drafting),
      drafter(compose_drafter(options.no_speculation ? ComposeDrafter() : parts.compose, draft,
                              draft_room(sizes))),
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
             {.max_batch = sizes.max_batch,
              .spec_length = sizes.spec_length,
              .token_budget = sizes.token_budget,
              .prefill_chunk = options.prefill_chunk,
              .prefix_cache = !options.no_prefix_cache}) {
  if (draft.warning()) {
    say("{}: warning: {}\n", stage_name(options.stage), *draft.warning());
  }
}

}  // namespace specdec
