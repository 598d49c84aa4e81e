#include "stages/programs/sampling/sampling_check.h"

#include <algorithm>
#include <cmath>

#include "stages/05_rejection_sampling/rejection_sampling.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/sampling/golden_run.h"
#include "stages/programs/sampling/speculation_options.h"
#include "stages/programs/speculation/draft_setup.h"

namespace specdec {
namespace {

// The recorded runs took their logits from a float64 model.
bool close(double got, double want) { return std::abs(got - want) <= 1e-3 * want + 1e-6; }

// Empty, or the first decision of the round that is not the recorded one.
std::string compare(const GoldenRound& want, const Round& round, const DraftAndVerify& steps,
                    const Judge& judge, std::span<const TokenId> emitted) {
  const auto differs = [](const char* what, auto got, auto wanted) {
    return fmt::format("{} is {}, recorded is {}", what, got, wanted);
  };
  if (round.start != want.start) return differs("start", round.start, want.start);
  if (round.drafted != want.spec_length) return differs("K", round.drafted, want.spec_length);
  for (int i = 0; i < round.drafted; i++) {
    const TokenId token = want.drafts[static_cast<std::size_t>(i)];
    if (steps.drafts().token(i) != token) return differs("draft", steps.drafts().token(i), token);
  }
  const auto tests = static_cast<int>(want.tests.size());
  for (int i = 0; i < std::min(round.tested(), tests); i++) {
    const GoldenRound::Test& test = want.tests[static_cast<std::size_t>(i)];
    const auto token = static_cast<std::size_t>(steps.drafts().token(i));
    const double p = judge.target_probs(i)[token];
    if (!close(p, test.target_prob)) return differs("p", p, test.target_prob);
    const auto probs = steps.drafts().probs(i);
    const double q = probs.empty() ? 1 : probs[token];
    if (!close(q, test.draft_prob)) return differs("q", q, test.draft_prob);
  }
  if (round.accepted != want.accepted) return differs("accepted", round.accepted, want.accepted);
  if (!std::ranges::equal(emitted, want.emitted)) return "the emitted tokens differ";
  if (round.target_length() != want.target_length) {
    return differs("cached", round.target_length(), want.target_length);
  }
  if (round.draft_length() != want.draft_length) {
    return differs("cached by the draft", round.draft_length(), want.draft_length);
  }
  return "";
}

// Runs recorded requests with the target and --draft.
class Replay {
 public:
  Replay(const RunOptions& options, const LlamaModel& model)
      : options_(options), model_(model), files_(open_model(options.target)) {
    options_.pages = 0;
    files_.token_limit = model.config().vocab_size;
  }

  // Empty, or what differs.
  std::string recorded(const GoldenRun& want) {
    request_ = want.generation;
    return run(want.speculation, want.spec_length, want.context_limit, want.seed,
               [&](std::size_t number, const Round& round, const DraftAndVerify& steps,
                   const Judge& judge, std::span<const TokenId> emitted) {
                 if (number >= want.rounds.size()) return std::string("one round too many");
                 return compare(want.rounds[number], round, steps, judge, emitted);
               });
  }

  // The same for a greedy text, which every rule must write at temperature 0.
  std::string greedy(const GoldenText& text, const NamedRule& rule) {
    request_.prompt = text.prompt;
    request_.eos_ids = files_.checkpoint.config().eos_ids;
    const std::vector<TokenId> tokens = text.tokens();
    request_.max_new_tokens = static_cast<int>(tokens.size());
    std::size_t at = 0;
    return run({.rule = &rule}, 5, model_.config().max_seq_len, 0,
               [&](std::size_t, const Round&, const DraftAndVerify&, const Judge&,
                   std::span<const TokenId> emitted) {
                 const auto want = std::span(tokens).subspan(at, emitted.size());
                 at += emitted.size();
                 return std::ranges::equal(emitted, want) ? "" : std::string("the text differs");
               });
  }

 private:
  template <typename Look>
  std::string run(const SpeculationOptions& speculation, int K, int limit, std::uint64_t seed,
                  const Look& look) {
    const int positions = std::min<int>(
        limit, static_cast<int>(request_.prompt.size()) + request_.max_new_tokens + K);
    DraftSetup draft(options_, files_, model_, {.context = positions},
                     sampled_drafting(KeepProbs::kBesideLogits));
    const auto cache = make_cache(model_, cache_layout(options_, positions));
    Llama target(model_, *cache, {.token_limit = files_.token_limit});
    DraftAndVerify steps(target, draft.drafter(), fixed_spec_length(K), limit,
                         draft.make_drafts(Capacity::of_chain(K)));
    Dice dice(seed);
    const auto judge = make_judge(steps, dice, speculation);
    Generation generation(request_, files_.tokenizer_or_null());
    std::vector<TokenId> context = request_.prompt;
    steps.prefill(context);
    for (std::size_t number = 0; !generation.finished(); number++) {
      const Round round = sampled_round(steps, *judge, context, generation);
      const auto emitted = std::span(context).last(static_cast<std::size_t>(round.emitted()));
      const std::string problem = look(number, round, steps, *judge, emitted);
      if (!problem.empty()) return fmt::format("round {}: {}", number + 1, problem);
    }
    return "";
  }

  RunOptions options_;
  const LlamaModel& model_;
  ModelFiles files_;
  GenerationRequest request_;
};

}  // namespace

void check_rejection_sampling(const RunOptions& options, const LlamaModel& target,
                              const std::filesystem::path& goldens, CheckList& list) {
  const Checkpoint checkpoint(options.target);
  check_belongs(goldens, checkpoint);
  Replay replay(options, target);
  list.note_missing(goldens, {"sampling.jsonl", "greedy.jsonl"});
  for (const GoldenRun& run : golden_runs(goldens, checkpoint.config())) {
    const std::string problem = replay.recorded(run);
    list.add(problem.empty(), fmt::format("recorded run {}: {} rounds", run.id, run.rounds.size()),
             problem);
  }
  const bool has_runs = !golden_runs(goldens, checkpoint.config()).empty();
  const int texts = golden_share(options, checkpoint.config()).texts;
  for (const GoldenText& text : golden_texts(goldens, checkpoint.config(), texts)) {
    const bool by_every_rule = text.id.ends_with("-0");
    if (!by_every_rule && has_runs) continue;  // the runs have rounds enough
    const auto rules = acceptance_rules();
    for (const NamedRule& rule : by_every_rule ? rules : rules.first(1)) {
      const std::string problem = replay.greedy(text, rule);
      list.add(problem.empty(), fmt::format("greedy text {} by {}", text.id, rule.name), problem);
    }
  }
}

}  // namespace specdec
