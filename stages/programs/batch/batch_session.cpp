#include "stages/programs/batch/batch_session.h"

#include <utility>

namespace specdec {
namespace {

CacheLayout layout_of(const RunOptions& options, const BatchSizes& sizes) {
  CacheLayout layout = cache_layout(options, sizes.capacity.context, sizes.capacity.requests);
  layout.pages = sizes.pages;
  return layout;
}

const LlamaModel* draft_model(const BatchSizes& sizes, const DraftSetup& draft,
                              const LlamaModel& target) {
  if (!sizes.draft_is_model) return nullptr;
  return draft.own_model() ? draft.own_model() : &target;
}

HeadsMemory heads_memory(const BatchSizes& sizes, const DraftSetup& draft,
                         const TargetRows* watched) {
  HeadsMemory memory = draft.heads_memory();
  if (watched != nullptr) memory.target_rows = watched->bytes(sizes.token_budget);
  return memory;
}

MemoryPlan memory_of(const BatchSession& session) {
  const LlamaModel& target = session.target.model;
  const DraftSetup& draft = session.draft;
  MemoryPlan plan =
      memory_plan(session.options, session.sizes, target, draft_model(session.sizes, draft, target),
                  heads_memory(session.sizes, draft, session.watched.get()));
  for (const DraftSetup* other : draft.beside()) {
    add_beside(plan, session.options, *other->own_model());
  }
  return plan;
}

}  // namespace

Judging batch_judging(const BatchSession& session) {
  return session.target.backend->samples() ? judging_on_device({}, session) : Judging{};
}

Judging judging_on_device(Judging judging, const BatchSession& session,
                          std::optional<TreeRule> siblings) {
  Backend& backend = *session.target.backend;
  const int V = session.target.llama.vocab_size();
  const auto judge = std::make_shared<DeviceJudge>(backend, judging_room(session.sizes.capacity, V),
                                                   overlaps_for(session.options), siblings);
  judging.memory = &backend;
  judging.judge = [judge](std::span<const RoundToJudge> rounds) { judge->judge(rounds); };
  return judging;
}

BatchSession::BatchSession(const RunOptions& options_, ModelFiles files_, const BatchParts& parts)
    : options(options_),
      files(std::move(files_)),
      sizes(batch_sizes(options, files.checkpoint.config().max_seq_len, parts.capacity)),
      target(options, files, layout_of(options, sizes), sizes.token_budget),
      draft(options, files, target.model, sizes.capacity, parts.drafting, parts.compose),
      watched(draft.watch(target.llama, sizes.capacity)),
      memory(memory_of(*this)),
      engine({.target = watched_target(target.llama, watched.get()),
              .target_cache = *target.cache,
              .drafter = draft.drafter(),
              .draft_cache = draft.only_cache(),
              .tokenizer = files.tokenizer_or_null(),
              .token_limit = files.token_limit,
              .judging = parts.judging(*this),
              .make_rounds = parts.make_rounds ? parts.make_rounds(*this) : make_batched_rounds},
             {.max_batch = sizes.capacity.requests,
              .spec_length = sizes.spec_length,
              .max_cached = sizes.capacity.context,
              .token_budget = sizes.token_budget,
              .prefill_chunk = options.prefill_chunk,
              .prefix_cache = !options.no_prefix_cache}),
      announcement(parts.announcement) {
  draft.warn();
}

}  // namespace specdec
