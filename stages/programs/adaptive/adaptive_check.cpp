#include "stages/programs/adaptive/adaptive_check.h"

#include <set>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "kernels/int_size.h"
#include "stages/07_adaptive_drafting/adaptive_round.h"
#include "stages/programs/adaptive/adapt.h"
#include "stages/programs/adaptive/drafters.h"
#include "stages/programs/sampling/speculation_options.h"
#include "stages/programs/speculation/checked_run.h"

namespace specdec {
namespace {

constexpr int kLargest = 7;

// The costs of a draft and of passes with 1, 2, ... rows, in plain steps.
CostProfile profile(double draft_step, double row) {
  CostProfile costs;
  costs.draft_step = draft_step;
  for (int K = 0; K <= kLargest; ++K) costs.target_pass.push_back(1 + K * row);
  return costs;
}

// A way to generate a text: how K is chosen, and which drafter drafts.
struct Way {
  std::string_view costs_are = {};
  CostProfile costs = profile(0.05, 0);
  DraftLength draft_length = DraftLength::kFixed;
  std::vector<DraftKind> kinds = {DraftKind::kLlama};  // the second one: --fallback
  std::vector<DraftKind> below = {};                   // --draft-of-draft
  int ngram_fill = 0;
};

const Way kGains[] = {{"cheap drafts", profile(0.05, 0), DraftLength::kGain},
                      {"dear rows", profile(0.2, 0.25), DraftLength::kGain},
                      {"hopeless drafts", profile(2, 0), DraftLength::kGain}};
const Way kOthers[] = {{.draft_length = DraftLength::kEntropy},
                       {.draft_length = DraftLength::kConfidence},
                       {.draft_length = DraftLength::kSchedule},
                       {.draft_length = DraftLength::kSurvival},
                       {.kinds = {DraftKind::kNgram}},
                       {.kinds = {DraftKind::kNgram}, .ngram_fill = 3},
                       {.kinds = {DraftKind::kSuffix}},
                       {.kinds = {DraftKind::kLookup, DraftKind::kLlama}},
                       {.below = {DraftKind::kBigram}},
                       {.below = {DraftKind::kLookup}},
                       {.below = {DraftKind::kBigram, DraftKind::kNgram}}};

// For a target without a draft model.
const Way kLookup{.draft_length = DraftLength::kGain, .kinds = {DraftKind::kLookup}};
const Way kWithoutModel[] = {{.kinds = {DraftKind::kLookup}},
                             {.kinds = {DraftKind::kNgram}},
                             {.kinds = {DraftKind::kSuffix}},
                             {.kinds = {DraftKind::kLookup, DraftKind::kNgram}}};

std::string_view in_words(DraftKind kind) {
  return kind == DraftKind::kLlama ? "the draft model" : name_of(kind);
}

std::string in_words(const Way& way) {
  if (!way.costs_are.empty()) return std::string(way.costs_are);
  const bool by_model = way.kinds[0] == DraftKind::kLlama,
             adapts = way.draft_length != DraftLength::kFixed;
  if (by_model && adapts) return std::string(name_of(way.draft_length));
  std::string words(in_words(way.kinds[0]));
  if (way.kinds.size() > 1) words += fmt::format(", else {}", in_words(way.kinds[1]));
  for (const DraftKind kind : way.below) words = fmt::format("{} below {}", name_of(kind), words);
  if (way.ngram_fill > 0) words += " with the target's likely tokens";
  if (adapts) words += fmt::format(" by {}", name_of(way.draft_length));
  return words;
}

RunOptions options_of(const RunOptions& given, const Way& way) {
  RunOptions options = given;
  options.given_spec_length = true;
  options.spec_length = kLargest;
  options.sampling = {.temperature = 0};
  options.draft_length = way.draft_length;
  options.draft_kind = way.kinds[0];
  options.fallback.clear();
  if (way.kinds.size() > 1) {
    options.fallback = fmt::format("{},{}", name_of(way.kinds[0]), name_of(way.kinds[1]));
  }
  options.draft_of_draft.clear();
  for (const DraftKind kind : way.below) options.draft_of_draft.emplace_back(name_of(kind));
  options.ngram_fill = way.ngram_fill;
  return with_base_kind(options);
}

// Returns what is wrong, or "". spec_lengths: receives every K that was used.
std::string check_text(const CheckedTarget& target, const GoldenText& text, const Way& way,
                       std::set<int>& spec_lengths) {
  const RunOptions options = options_of(target.options, way);
  const Drafting drafting = adaptive_drafting(KeepProbs::kOnHost, true);
  CheckedParts parts{.drafting = drafting, .compose = composition(options, drafting)};
  if (way.draft_length != DraftLength::kFixed) {
    parts.policy = make_policy(options, kLargest, way.costs, nullptr);
  }
  CheckedRun run(target, options, target.request(text), std::move(parts));
  Dice dice(0);
  const auto judge = make_judge(run.steps, dice, {});
  if (way.ngram_fill > 0) {
    judge->drafting().likely =
        std::make_shared<LikelyTokens>(way.ngram_fill, int_size(text.prompt));
  }
  while (!run.generation.finished()) {
    spec_lengths.insert(adaptive_round(run.steps, *judge, run.context, run.generation).drafted);
  }
  return run.difference(text.tokens());
}

}  // namespace

int check_adaptive_drafting(const RunOptions& options) {
  const CheckedTarget target(options);
  const bool by_lookup = options.draft_kind == DraftKind::kLookup;
  const auto each = by_lookup ? std::span(&kLookup, 1) : std::span<const Way>(kGains);
  const auto more = by_lookup ? std::span<const Way>(kWithoutModel) : std::span<const Way>(kOthers);
  CheckList list;
  list.note_missing(target.goldens, {"greedy.jsonl"});
  const auto add = [&](const GoldenText& text, const Way& way) {
    std::set<int> spec_lengths;
    const std::string problem = check_text(target, text, way, spec_lengths);
    list.check(fmt::format("greedy text {}, {}: K of {}", text.id, in_words(way),
                           fmt::join(spec_lengths, ", ")),
               problem);
  };
  for (const GoldenText& text : target.texts) {
    for (const Way& way : each) add(text, way);
    if (!text.id.ends_with("-0")) continue;
    for (const Way& way : more) add(text, way);
  }
  return list.finish();
}

}  // namespace specdec
