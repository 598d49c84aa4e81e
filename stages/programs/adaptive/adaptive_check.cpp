#include "stages/programs/adaptive/adaptive_check.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "common/base/json_value.h"
#include "stages/04_greedy_speculation/draft_and_verify.h"
#include "stages/07_adaptive_drafting/adaptive_round.h"
#include "stages/programs/adaptive/adapt.h"
#include "stages/programs/adaptive/drafters.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/check/golden_check.h"
#include "stages/programs/run/device.h"
#include "stages/programs/run/load_model.h"
#include "stages/programs/sampling/speculation_options.h"

namespace specdec {
namespace {

constexpr int kLargest = 7;

// The costs of a draft and of passes with 1, 2, ... rows, in plain steps.
CostProfile profile(double draft_step, double row) {
  CostProfile costs;
  costs.draft_step = draft_step;
  for (int K = 0; K <= kLargest; K++) costs.target_pass.push_back(1 + K * row);
  return costs;
}

// A way to generate a text: how K is chosen, and which drafter drafts.
struct Way {
  std::string_view name;
  CostProfile costs = profile(0.05, 0);
  DraftLength draft_length = DraftLength::kFixed;
  DraftKind draft_kind = DraftKind::kLlama;
  std::string fallback = {};
  std::vector<std::string> draft_of_draft = {};
  int ngram_fill = 0;
};

const Way kGains[] = {{"cheap drafts", profile(0.05, 0), DraftLength::kGain},
                      {"dear rows", profile(0.2, 0.25), DraftLength::kGain},
                      {"hopeless drafts", profile(2, 0), DraftLength::kGain}};
const Way kOthers[] = {
    {.name = "entropy", .draft_length = DraftLength::kEntropy},
    {.name = "confidence", .draft_length = DraftLength::kConfidence},
    {.name = "schedule", .draft_length = DraftLength::kSchedule},
    {.name = "ngram", .draft_kind = DraftKind::kNgram},
    {.name = "ngram with the target's likely tokens",
     .draft_kind = DraftKind::kNgram,
     .ngram_fill = 3},
    {.name = "lookup, else the draft model", .fallback = "lookup,llama"},
    {.name = "bigram below the draft model", .draft_of_draft = {"bigram"}},
    {.name = "lookup below the draft model", .draft_of_draft = {"lookup"}},
    {.name = "ngram below bigram below the draft model", .draft_of_draft = {"bigram", "ngram"}}};

// For a target without a draft model.
const Way kLookup{
    .name = "lookup by gain", .draft_length = DraftLength::kGain, .draft_kind = DraftKind::kLookup};
const Way kWithoutModel[] = {{.name = "lookup", .draft_kind = DraftKind::kLookup},
                             {.name = "ngram", .draft_kind = DraftKind::kNgram},
                             {.name = "lookup, else ngram", .fallback = "lookup,ngram"}};

class Check {
 public:
  Check(const RunOptions& options, const LlamaModel& model)
      : options_(options), model_(model), files_(open_model(options_.target)) {
    files_.token_limit = model.config().vocab_size;
    request_.eos_ids = files_.checkpoint.config().eos_ids;
    options_.given_spec_length = true;
    options_.spec_length = kLargest;
    options_.sampling = {.temperature = 0};
  }

  // Returns what is wrong, or "". spec_lengths: receives every K that was used.
  std::string text(const GoldenText& text, const Way& way, std::set<int>& spec_lengths) {
    request_.prompt = text.prompt;
    const std::vector<TokenId> tokens = text.tokens();
    request_.max_new_tokens = static_cast<int>(tokens.size());
    const int positions = std::min(static_cast<int>(request_.prompt.size() + tokens.size()) + 8,
                                   model_.config().max_seq_len);
    const RunOptions options = with_way(way);
    const Capacity capacity{.context = positions};
    const Drafting drafting = adaptive_drafting(KeepProbs::kOnHost, true);
    DraftSetup draft(options, files_, model_, capacity, drafting, composition(options, drafting));
    const auto cache = make_cache(model_, cache_layout(options, positions));
    Llama target(model_, *cache, {.token_limit = files_.token_limit});
    auto policy = way.draft_length == DraftLength::kFixed
                      ? fixed_spec_length(kLargest)
                      : make_policy(options, kLargest, way.costs);
    DraftAndVerify steps(target, draft.drafter(), std::move(policy), positions,
                         draft.make_drafts(Capacity::of_chain(kLargest)));
    return rounds(steps, tokens, way.ngram_fill, spec_lengths);
  }

 private:
  RunOptions with_way(const Way& way) const {
    RunOptions options = options_;
    options.draft_length = way.draft_length;
    options.draft_kind = way.draft_kind;
    options.fallback = way.fallback;
    options.draft_of_draft = way.draft_of_draft;
    options.ngram_fill = way.ngram_fill;
    return with_base_kind(options);
  }

  std::string rounds(DraftAndVerify& steps, std::span<const TokenId> want, int ngram_fill,
                     std::set<int>& spec_lengths) {
    Dice dice(0);
    const auto judge = make_judge(steps, dice, {});
    if (ngram_fill > 0) {
      judge->drafting().likely =
          std::make_shared<LikelyTokens>(ngram_fill, static_cast<int>(request_.prompt.size()));
    }
    Generation generation(request_, nullptr);
    std::vector<TokenId> context = request_.prompt;
    steps.prefill(context);
    while (!generation.finished()) {
      const Round round = adaptive_round(steps, *judge, context, generation);
      spec_lengths.insert(round.drafted);
    }
    if (std::ranges::equal(generation.tokens(), want)) return "";
    const auto differ = std::ranges::mismatch(generation.tokens(), want);
    return fmt::format("token {} differs from the golden one",
                       differ.in1 - generation.tokens().begin());
  }

  RunOptions options_;
  const LlamaModel& model_;
  ModelFiles files_;
  GenerationRequest request_;
};

}  // namespace

int check_adaptive_drafting(const RunOptions& options) {
  const Checkpoint checkpoint(options.target);
  const auto backend = make_backend(options);
  const LlamaModel model = load_target(options, checkpoint, *backend);
  const std::filesystem::path goldens = golden_directory(options.goldens);
  check_belongs(goldens, checkpoint);
  RunOptions roomy = options;
  roomy.pages = 0;
  Check check(roomy, model);
  CheckList list;
  list.note_missing(goldens, {"greedy.jsonl"});
  const auto add = [&](const GoldenText& text, const Way& way) {
    std::set<int> spec_lengths;
    const std::string problem = check.text(text, way, spec_lengths);
    list.add(problem.empty(),
             fmt::format("greedy text {}, {}: K of {}", text.id, way.name,
                         fmt::join(spec_lengths, ", ")),
             problem);
  };
  const bool by_lookup = options.draft_kind == DraftKind::kLookup;
  const auto each = by_lookup ? std::span(&kLookup, 1) : std::span<const Way>(kGains);
  const auto more = by_lookup ? std::span<const Way>(kWithoutModel) : std::span<const Way>(kOthers);
  const int texts = golden_share(options, checkpoint.config()).texts;
  for (const GoldenText& text : golden_texts(goldens, checkpoint.config(), texts)) {
    for (const Way& way : each) add(text, way);
    if (!text.id.ends_with("-0")) continue;
    for (const Way& way : more) add(text, way);
  }
  return list.finish();
}

}  // namespace specdec
