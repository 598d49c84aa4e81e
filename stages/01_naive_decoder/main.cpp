// Stage 1: greedy decoding with nothing but the forward pass. Every new token costs a pass over all
// tokens so far.
#include "common/argmax.h"
#include "common/base/stopwatch.h"
#include "common/base/streams.h"
#include "common/generation.h"
#include "common/run_stats.h"
#include "stages/01_naive_decoder/naive_llama.h"
#include "stages/programs/check/golden_check.h"
#include "stages/programs/run/stage_main.h"
#include "stages/programs/show/plain_run.h"

namespace specdec {
namespace {

// [snippet decode]
void decode(const NaiveLlama& target, PlainRun& run) {
  std::vector<TokenId> context = run.request.prompt;
  while (!run.generation.finished()) {
    const Stopwatch watch(run.stats.decode_seconds);
    if (run.options.explain) say("[{} rows for 1 token]", context.size());
    // Everything is computed again, though only the last token is new.
    const std::vector<float> logits = target.next_token_logits(context);
    run.logits.add(logits);
    const auto allowed = std::span(logits).first(std::size_t(run.files.token_limit));
    // [task 1.6: the decode loop]
    const TokenId next = argmax(allowed);
    context.push_back(next);
    run.generation.push(next);
    ++run.stats.target_forwards;
    ++run.stats.emitted;
    // [end task 1.6]
    run.show_text();
  }
  run.stats.target_rows = target.rows_computed();
}
// [end snippet decode]

TensorLog record(const NaiveLlama& model, std::span<const TokenId> tokens) {
  TensorLog log;
  model.forward(tokens, [&](TensorKind kind, int layer, const Rows& rows) {
    log.add(kind, layer, rows.values, rows.width);
  });
  return log;
}

// One pass over all tokens gives the same logits as a pass for each token, because a token does not
// see later ones. Only the check can do this, because it knows the later tokens.
std::vector<float> logits_along(const NaiveLlama& model, std::span<const TokenId> prompt,
                                std::span<const TokenId> following) {
  std::vector<TokenId> tokens(prompt.begin(), prompt.end());
  tokens.insert(tokens.end(), following.begin(), following.end() - 1);
  const Rows logits = model.forward(tokens);
  return {logits.values.begin() + std::ssize(logits.values) - std::ssize(following) * logits.width,
          logits.values.end()};
}

int check(const RunOptions& options) {
  const Checkpoint checkpoint(options.target);
  const NaiveLlama model(checkpoint);
  CheckedModel checked;
  checked.checkpoint = &checkpoint;
  checked.activations = [&](std::span<const TokenId> tokens) { return record(model, tokens); };
  checked.decode = [&](std::span<const TokenId> prompt, std::span<const TokenId> following) {
    return logits_along(model, prompt, following);
  };
  CheckList list;
  check_goldens(golden_directory(options.goldens), checked, list);
  return list.finish();
}

int run(const RunOptions& options) {
  if (options.check) return check(options);
  PlainRun plain(options);
  const NaiveLlama target(plain.files.checkpoint);
  if (!options.dump.empty()) record(target, plain.request.prompt).write(options.dump);

  const std::int64_t rows_before = target.rows_computed();
  decode(target, plain);
  plain.stats.target_rows -= rows_before;
  plain.finish(target.config(), "CPU, plain loops in 1 thread");
  return kGood;
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  return specdec::stage_main(1, "Greedy decoding that computes everything again for every token.",
                             argc, argv, specdec::run);
}
