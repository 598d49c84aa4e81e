// Stage 2: greedy decoding with a contiguous cache. One call prefills the prompt; then every new
// token costs a pass over one row.

#include "common/base/stopwatch.h"
#include "common/base/streams.h"
#include "common/generation.h"
#include "common/llama.h"
#include "common/run_stats.h"
#include "kernels/int_size.h"
#include "stages/02_contiguous_kv_cache/contiguous_kv_cache.h"
#include "stages/programs/check/golden_check.h"
#include "stages/programs/run/device.h"
#include "stages/programs/run/load_model.h"
#include "stages/programs/run/stage_main.h"
#include "stages/programs/show/plain_run.h"
#include "stages/programs/show/report.h"

namespace specdec {
namespace {

// [snippet decode]
void decode(Llama& target, PlainRun& run) {
  std::vector<TokenId> context = run.request.prompt;
  context.reserve(run.request.max_context);
  const LogitsBuffer logits(target, 1);
  const DeviceRows row = logits.rows(0, 1);
  const LlamaCounters before = target.counters();
  const SequenceId sequence = target.create();

  // Takes the token that the last pass chose.
  const auto take_next = [&] {
    const TokenId next = argmax(target.backend(), row);
    run.logits.add(target.backend(), row);
    if (run.options.explain) say("[1 row, {} cached]", target.length(sequence));
    context.push_back(next);
    run.generation.push(next);
    run.show_text();
    ++run.stats.emitted;
  };

  // [task 2.5: prefill, then one row per token]
  if (context.size() > 1) {  // prefill: all of the prompt but its last token, in one call
    const Stopwatch watch(run.stats.prefill_seconds);
    target.forward(Segment{sequence, std::span(context).first(context.size() - 1), 0}, {});
  }
  while (!run.generation.finished()) {
    const Stopwatch watch(run.stats.decode_seconds);
    target.forward(Segment{sequence, uncached(target, sequence, context), 1}, row);
    ++run.stats.target_forwards;
    take_next();
  }
  // [end task 2.5]
  count_target(run.stats, target.counters() - before);
  target.release(sequence);
}
// [end snippet decode]

// [snippet check-recompute]
// This stage's addition to the golden checks: the bits are those of recomputing everything.
void check_recompute(Llama& model, std::span<const TokenId> tokens, CheckList& list) {
  const int n_tokens = int_size(tokens);
  const LogitsBuffer logits(model, 2);
  const SequenceId decoded = model.create();
  int differing = 0;
  for (int i = 0; i < n_tokens; ++i) {
    const SequenceId recomputed = model.create();
    model.forward(Segment{decoded, tokens.subspan(std::size_t(i), 1), 1}, logits.rows(0, 1));
    model.forward(Segment{recomputed, tokens.first(std::size_t(i) + 1), 1}, logits.rows(1, 1));
    model.release(recomputed);
    differing += !same_bits(model.backend(), logits.rows(0, 1), logits.rows(1, 1));
  }
  model.release(decoded);
  list.add(differing == 0, fmt::format("decoding {} tokens: the bits of recomputing", n_tokens),
           fmt::format("{} rows of logits differ", differing));
}
// [end snippet check-recompute]

int check(const RunOptions& options) {
  const Checkpoint checkpoint(options.target);
  const auto goldens = golden_directory(options.goldens);
  const auto backend = make_backend(options);
  const LlamaModel model = load_target(options, checkpoint, *backend);
  ContiguousKvCache cache(*backend, model.kv_shape(options.kv_type), 2,
                          longest_golden(goldens, checkpoint.config()));
  Llama target(model, cache);
  CheckList list;
  check_goldens(goldens, checked_engine(checkpoint, target, cache), list,
                golden_check_options(options, checkpoint.config()));
  check_recompute(target, GoldenFile(goldens / "short.cache.safetensors").tokens(), list);
  return list.finish();
}

int run(const RunOptions& options) {
  if (options.check) return check(options);
  PlainRun plain(options);
  const auto backend = make_backend(options);
  const LlamaModel model = load_target(options, plain.files.checkpoint, *backend);
  ContiguousKvCache cache(*backend, model.kv_shape(options.kv_type), 1, plain.request.max_context);
  Llama target(model, cache, {.token_limit = plain.files.token_limit});
  if (!options.dump.empty()) record_forward(target, plain.request.prompt).write(options.dump);

  decode(target, plain);
  plain.stats.cache_bytes = cache.memory().bytes();
  plain.finish(model.config(), backend->name());
  return kGood;
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  return specdec::stage_main(2, "Greedy decoding with a contiguous KV cache.", argc, argv,
                             specdec::run);
}
