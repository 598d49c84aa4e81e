#include "stages/programs/speculation/checked_run.h"

#include <utility>

#include "kernels/int_size.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/run/device.h"
#include "stages/programs/run/draft_length.h"
#include "stages/programs/run/load_model.h"
#include "stages/programs/speculation/session.h"

namespace specdec {

CheckedTarget::CheckedTarget(const RunOptions& options_)
    : options(options_),
      goldens(golden_directory(options.goldens)),
      files(open_model(options.target)),
      backend(make_backend(options)),
      model(load_target(options, files.checkpoint, *backend)),
      texts(texts_to_check(options, files.checkpoint)) {
  options.pages = options.max_context = 0;
  files.token_limit = model.config().vocab_size;
}

GenerationRequest CheckedTarget::request(const GoldenText& text) const {
  return {.prompt = text.prompt,
          .max_new_tokens = int_size(text.steps),
          .eos_ids = model.config().eos_ids};
}

CheckedRun::CheckedRun(const CheckedTarget& checked, const RunOptions& options_,
                       GenerationRequest request_, CheckedParts parts)
    : options(options_),
      request(std::move(request_)),
      capacity(session_capacity(options, checked.files, request, parts.capacity)),
      draft(options, checked.files, checked.model, capacity, parts.drafting, parts.compose),
      cache(
          make_cache(checked.model, cache_layout(options, capacity.context + capacity.branches()))),
      target(checked.model, *cache, {.token_limit = checked.files.token_limit}),
      watched(draft.watch(target, capacity)),
      steps(watched_target(target, watched.get()), draft.drafter(),
            parts.policy ? std::move(parts.policy) : fixed_spec_length(spec_length_of(options)),
            context_limit(checked.files, options), draft.make_drafts(capacity)),
      generation(request, checked.files.tokenizer_or_null()),
      context(request.prompt) {
  steps.prefill(context);
}

}  // namespace specdec
