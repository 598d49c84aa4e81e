// Stage 3: greedy decoding with a cache in pages. The decode loop is stage 2's; the new part is the
// cache that implements the interface.
#include <memory>

#include "common/base/stopwatch.h"
#include "common/base/streams.h"
#include "common/base/terminal.h"
#include "common/generation.h"
#include "common/llama.h"
#include "common/run_stats.h"
#include "kernels/int_size.h"
#include "stages/02_contiguous_kv_cache/contiguous_kv_cache.h"
#include "stages/03_paged_kv_cache/paged_kv_cache.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/cache/pool_picture.h"
#include "stages/programs/check/golden_check.h"
#include "stages/programs/run/device.h"
#include "stages/programs/run/load_model.h"
#include "stages/programs/run/stage_main.h"
#include "stages/programs/show/plain_run.h"
#include "stages/programs/show/report.h"

namespace specdec {
namespace {

void explain(const KvCache& cache, std::string_view when) {
  const auto* paged = dynamic_cast<const PagedKvCache*>(&cache);
  if (paged == nullptr) return;  // a contiguous cache has nothing to show
  say("\n{}:\n{}", when, pool_picture(*paged, use_colour(stderr)));
}

// Shows an advantage of pages: a second sequence shares them until one of the two writes.
void explain_sharing(Llama& model, const KvCache& cache, SequenceId sequence) {
  explain(cache, "at the end");
  const SequenceId second = model.fork(sequence);
  explain(cache, "forked: the second sequence shares every page");
  const Extension one_more{second, 1};
  if (model.can_extend(std::span(&one_more, 1))) {
    const TokenId token = 0;
    model.forward(Segment{second, std::span(&token, 1), 0}, {});
    explain(
        cache,
        "the second sequence wrote one token: it got its own copy of the last page, or a new one");
  }
  model.release(second);
}

// [snippet decode]
void decode(Llama& target, const KvCache& cache, PlainRun& run) {
  std::vector<TokenId> context = run.request.prompt;
  context.reserve(run.request.max_context);
  const LogitsBuffer logits(target, 1);
  const DeviceRows row = logits.rows(0, 1);
  const LlamaCounters before = target.counters();
  const SequenceId sequence = target.create();

  if (context.size() > 1) {  // prefill: all of the prompt but its last token, in one call
    const Stopwatch watch(run.stats.prefill_seconds);
    target.forward(Segment{sequence, std::span(context).first(context.size() - 1), 0}, {});
  }
  if (run.options.explain) explain(cache, "after the prefill");
  while (!run.generation.finished()) {
    const Stopwatch watch(run.stats.decode_seconds);
    target.forward(Segment{sequence, uncached(target, sequence, context), 1}, row);
    ++run.stats.target_forwards;
    const TokenId next = argmax(target.backend(), row);
    run.logits.add(target.backend(), row);
    context.push_back(next);
    run.generation.push(next);
    run.show_text();
    ++run.stats.emitted;
  }
  count_target(run.stats, target.counters() - before);
  if (run.options.explain) explain_sharing(target, cache, sequence);
  target.release(sequence);
}
// [end snippet decode]

// This stage's addition to the golden checks: stage 2's bits for any page size, and no page lost.
void check_pages(const LlamaModel& model, KvType type, std::span<const TokenId> tokens,
                 CheckList& list) {
  const int n_tokens = int_size(tokens);
  ContiguousKvCache contiguous(model.backend(), model.kv_shape(type), 1, n_tokens);
  Llama stage2(model, contiguous);
  const LogitsBuffer want(stage2, n_tokens), got(stage2, n_tokens);
  stage2.forward(Segment{stage2.create(), tokens, n_tokens}, want.rows(0, n_tokens));
  for (const int page_size : {1, 3, 16}) {
    const int n_pages = pages_for(n_tokens, page_size);
    PagedKvCache paged(model.backend(), model.kv_shape(type), n_pages, page_size);
    Llama stage3(model, paged);
    const SequenceId sequence = stage3.create();
    for (int i = 0; i < n_tokens; ++i) {
      stage3.forward(Segment{sequence, tokens.subspan(std::size_t(i), 1), 1}, got.rows(i, 1));
    }
    list.add(same_bits(model.backend(), got.rows(0, n_tokens), want.rows(0, n_tokens)),
             fmt::format("{} tokens in pages of {}: the bits of stage 2", n_tokens, page_size),
             "the logits differ");
    const bool owned = std::ssize(paged.pages(sequence)) == n_pages;
    stage3.release(sequence);
    list.add(owned && paged.allocator().n_free() == n_pages,
             fmt::format("pages of {}: {} taken and given back", page_size, n_pages),
             fmt::format("{} free at the end", paged.allocator().n_free()));
  }
}

int check(RunOptions options) {
  options.pages = 0;  // enough
  const Checkpoint checkpoint(options.target);
  const auto goldens = golden_directory(options.goldens);
  const auto backend = make_backend(options);
  const LlamaModel model = load_target(options, checkpoint, *backend);
  const auto cache =
      make_cache(model, cache_layout(options, longest_golden(goldens, checkpoint.config())));
  Llama target(model, *cache);
  CheckList list;
  check_goldens(goldens, checked_engine(checkpoint, target, *cache), list,
                golden_check_options(options, checkpoint.config()));
  check_pages(model, options.kv_type, GoldenFile(goldens / "short.cache.safetensors").tokens(),
              list);
  return list.finish();
}

int run(const RunOptions& options) {
  if (options.check) return check(options);
  PlainRun plain(options);
  const GenerationRequest& request = plain.request;
  check_pool(options, int_size(request.prompt) + request.max_new_tokens - 1);
  const auto backend = make_backend(options);
  const LlamaModel model = load_target(options, plain.files.checkpoint, *backend);
  CacheLayout layout = cache_layout(options, request.max_context);
  if (options.explain && options.pages == 0) ++layout.pages;  // for the fork at the end
  const auto cache = make_cache(model, layout);
  Llama target(model, *cache, {.token_limit = plain.files.token_limit});
  if (!options.dump.empty()) record_forward(target, request.prompt).write(options.dump);

  decode(target, *cache, plain);
  plain.stats.cache_bytes = cache->memory().bytes();
  plain.finish(model.config(), backend->name());
  return kGood;
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  return specdec::stage_main(3, "Greedy decoding with a KV cache in pages.", argc, argv,
                             specdec::run);
}
