// Stage 2: greedy decoding with a contiguous cache. The prompt is prefilled in one call; after that
// every new token costs a pass over one row.

#include "common/base/stopwatch.h"
#include "common/base/streams.h"
#include "common/generation.h"
#include "common/llama.h"
#include "common/run_stats.h"
#include "stages/02_contiguous_kv_cache/contiguous_kv_cache.h"
#include "stages/programs/check/golden_check.h"
#include "stages/programs/run/device.h"
#include "stages/programs/run/load_model.h"
#include "stages/programs/run/stage_main.h"
#include "stages/programs/show/report.h"

namespace specdec {
namespace {

// [snippet decode]
void decode(Llama& target, const Request& request, const RunOptions& options,
            Generation& generation, LogitsLog& log, RunStats& stats) {
  std::vector<TokenId> context = request.prompt;
  context.reserve(static_cast<std::size_t>(request.max_context));
  const LogitsBuffer logits(target, 1);
  const DeviceRows row = logits.rows(0, 1);
  const LlamaCounters before = target.counters();
  const SequenceId sequence = target.create();

  // What follows a pass.
  const auto take_next = [&] {
    const TokenId next = argmax(target.backend(), row);
    log.add(target.backend(), row);
    if (options.explain) say("[1 row, {} cached]", target.length(sequence));
    context.push_back(next);
    generation.push(next);
    stats.emitted++;
  };

  // [task 2.5: prefill, then one row a token]
  if (context.size() > 1) {  // prefill: all of the prompt but its last token, in one call
    const Stopwatch watch(stats.prefill_seconds);
    target.forward(Segment{sequence, std::span(context).first(context.size() - 1), 0}, {});
  }
  while (!generation.finished()) {
    const Stopwatch watch(stats.decode_seconds);
    target.forward(Segment{sequence, uncached(target, sequence, context), 1}, row);
    stats.target_forwards++;
    take_next();
  }
  // [end task 2.5]
  count_target(stats, target.counters() - before);
  target.release(sequence);
}
// [end snippet decode]

// [snippet check-recompute]
// What this stage adds to the golden checks: the bits are those of recomputing everything.
void check_recompute(Llama& model, std::span<const TokenId> tokens, CheckList& list) {
  const auto n_tokens = static_cast<int>(tokens.size());
  const LogitsBuffer logits(model, 2);
  const SequenceId decoded = model.create();
  int differing = 0;
  for (int i = 0; i < n_tokens; i++) {
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
  ContiguousKvCache cache(*backend, model.kv_shape(), 2,
                          longest_golden(goldens, checkpoint.config()));
  Llama target(model, cache);
  CheckList list;
  check_goldens(goldens, checked_engine(checkpoint, target, cache), list);
  check_recompute(target, GoldenFile(goldens / "short.cache.safetensors").tokens(), list);
  return list.finish();
}

int run(const RunOptions& options) {
  if (options.check) return check(options);
  const Request request = read_request(options);
  const auto backend = make_backend(options);
  const LlamaModel model = load_target(options, request.checkpoint, *backend);
  ContiguousKvCache cache(*backend, model.kv_shape(), 1, request.max_context);
  Llama target(model, cache, {.token_limit = request.token_limit});
  if (!options.dump.empty()) record_forward(target, request.prompt).write(options.dump);

  Generation generation(request, request.tokenizer_or_null(), text_sink(options));
  LogitsLog log(options.dump_logits);
  RunStats stats;
  decode(target, request, options, generation, log, stats);
  stats.cache_bytes = static_cast<std::int64_t>(cache.memory().bytes());
  log.write();
  report(options, request, model.config(), generation, stats, backend->name());
  return kGood;
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  return specdec::stage_main(2, "Greedy decoding with a contiguous KV cache.", argc, argv,
                             specdec::run);
}
