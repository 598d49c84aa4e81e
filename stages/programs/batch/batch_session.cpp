#include "stages/programs/batch/batch_session.h"

#include <utility>

#include "common/base/streams.h"

namespace specdec {
namespace {

CacheLayout layout_of(const RunOptions& options, const BatchSizes& sizes) {
  CacheLayout layout = cache_layout(options, sizes.capacity.context);
  layout.pages = sizes.pages;
  layout.sequences = sizes.capacity.requests;
  return layout;
}

const LlamaModel* draft_model(const BatchSizes& sizes, const DraftSetup& draft,
                              const LlamaModel& target) {
  if (!sizes.draft_is_model) return nullptr;
  return draft.own_model() ? draft.own_model() : &target;
}

}  // namespace

std::shared_ptr<BatchJudge> make_batch_judge(const BatchSession& session) {
  Backend& backend = *session.target.backend;
  if (!backend.samples()) return std::make_shared<BatchJudge>();
  const LanguageModel& target = session.target.llama;
  return std::make_shared<DeviceBatchJudge>(backend, session.sizes.capacity.requests,
                                            session.sizes.spec_length, target.vocab_size(),
                                            target.max_seq_len(), overlaps_for(session.options));
}

BatchSession::BatchSession(const RunOptions& options_, ModelFiles files_, const BatchParts& parts)
    : options(options_),
      files(std::move(files_)),
      sizes(batch_sizes(options, files.checkpoint.config().max_seq_len, parts.capacity)),
      target(options, files, layout_of(options, sizes), sizes.token_budget),
      draft(options, files, target.model, sizes.capacity, parts.drafting, parts.compose),
      memory(memory_plan(options, sizes, target.model, draft_model(sizes, draft, target.model))),
      judge(parts.make_judge(*this)),
      engine({.target = target.llama,
              .target_cache = *target.cache,
              .drafter = draft.drafter(),
              .draft_cache = draft.only_cache(),
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
