#include "stages/programs/adaptive/drafters.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/error.h"
#include "stages/07_adaptive_drafting/fallback_drafter.h"
#include "stages/07_adaptive_drafting/gated_sampler.h"
#include "stages/07_adaptive_drafting/ngram_drafter.h"
#include "stages/07_adaptive_drafting/suffix_drafter.h"
#include "stages/07_adaptive_drafting/two_levels.h"
#include "stages/programs/sampling/speculation_options.h"

namespace specdec {
namespace {

std::pair<DraftKind, DraftKind> fallback_kinds(const RunOptions& options) {
  const std::string& text = options.fallback;
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos) {
    fail("--fallback is '{}'; it takes two kinds, as {},{}", text, name_of(DraftKind::kLookup),
         name_of(DraftKind::kLlama));
  }
  const auto is_there = [&](const NamedDrafter& drafter) { return drafter.since <= options.stage; };
  const auto kind_of = [&](const std::string& name) {
    const NamedDrafter* drafter = find_named(kDrafters, name);
    if (drafter == nullptr || !is_there(*drafter)) {
      fail("--fallback {}: there is no such drafter; there are {}", name,
           names_where(kDrafters, ", ", is_there));
    }
    return static_cast<DraftKind>(drafter - kDrafters);
  };
  const DraftKind first = kind_of(text.substr(0, comma)), second = kind_of(text.substr(comma + 1));
  if (first == second) fail("--fallback: {} cannot fall back on itself", name_of(first));
  return {first, second};
}

DraftNeeds needs_of(DraftKind kind) { return entry_of(kind).needs; }

// The options of the draft model's drafter. draft: a kind or a directory.
RunOptions inner_options(const RunOptions& options, const std::string& draft) {
  RunOptions inner = options;
  inner.inflate_draft.clear();
  inner.draft_weights = WeightFormat::kStored;
  if (const auto kind = find_choice<DraftKind>(draft)) {
    inner.draft_kind = *kind;
  } else {
    inner.draft_kind = DraftKind::kLlama;
    inner.draft = draft;
  }
  return inner;
}

bool is_same_draft(const RunOptions& a, const RunOptions& b) {
  if (a.draft_kind != b.draft_kind) return false;
  return a.draft_kind != DraftKind::kLlama ||
         std::filesystem::weakly_canonical(a.draft) == std::filesystem::weakly_canonical(b.draft);
}

void check_drafts_of_drafts(const RunOptions& options) {
  RunOptions above = options;
  for (const std::string& draft : options.draft_of_draft) {
    if (draft.empty()) fail("--draft-of-draft is empty; it takes DIR|KIND");
    const RunOptions below = inner_options(options, draft);
    if (below.draft_kind == DraftKind::kSelf) {
      fail("--draft-of-draft {}: the target costs more than any draft that it could help", draft);
    }
    if (needs_of(below.draft_kind) == DraftNeeds::kRows) {
      fail("--draft-of-draft {}: only the target hands out rows", draft);
    }
    if (needs_of(above.draft_kind) == DraftNeeds::kNothing) {
      fail("--draft-of-draft {}: {} makes no passes that a draft of its own could save", draft,
           name_of(above.draft_kind));
    }
    if (is_same_draft(above, below)) {
      fail("--draft-of-draft {}: a draft cannot be its own draft", draft);
    }
    above = below;
  }
}

void require_drafter(const std::vector<DraftKind>& kinds, DraftKind kind, std::string_view option,
                     bool given) {
  if (!given || std::ranges::count(kinds, kind) > 0) return;
  fail(
      "{}: {} does not draft for the target; use --draft-kind {}, or --fallback with it as one of "
      "the two kinds",
      option, name_of(kind), name_of(kind));
}

// The drafter of a setup, sped up by the drafters in `below`, of which the first drafts for it.
std::shared_ptr<Drafter> with_drafts_below(DraftSetup& setup, const RunOptions& options,
                                           std::span<const std::string> below,
                                           const Capacity& capacity, Levels* levels) {
  if (below.empty()) return {std::shared_ptr<void>(), &setup.own_drafter()};  // owned by the setup
  const auto part = make_part(inner_options(options, below.front()), setup, capacity,
                              adaptive_drafting(KeepProbs::kOnHost, true));
  part->inner = with_drafts_below(*part->setup, options, below.subspan(1), capacity, levels);
  const auto drafter = std::make_shared<SpeculatingDrafter>(
      *setup.model(), std::shared_ptr<Drafter>(part, part->inner.get()), options.inner_spec_length,
      capacity.context + 1, setup.target().config().vocab_size);
  if (levels != nullptr) levels->insert(levels->begin(), drafter.get());
  return std::make_shared<SoundDrafter>(drafter, setup.tell_damage());
}

}  // namespace

std::shared_ptr<DraftPart> make_part(RunOptions options, const DraftSetup& base,
                                     const Capacity& capacity, const Drafting& drafting) {
  const auto part = std::make_shared<DraftPart>(DraftPart{std::move(options), nullptr, nullptr});
  part->setup = std::make_unique<DraftSetup>(part->options, base.target_files(), base.target(),
                                             capacity, drafting);
  return part;
}

RunOptions with_base_kind(RunOptions options) {
  std::vector<DraftKind> kinds = {options.draft_kind};  // the kinds that draft for the target
  if (!options.fallback.empty()) {
    const auto [first, second] = fallback_kinds(options);
    options.draft_kind = needs_of(first) > needs_of(second) ? first : second;
    kinds = {first, second};
  }
  require_drafter(kinds, DraftKind::kNgram, "--ngram-fill", options.ngram_fill > 0);
  require_drafter(kinds, DraftKind::kSuffix, "--suffix-memory", options.suffix_memory > 0);
  require_drafter(kinds, DraftKind::kSuffix, "--suffix-match", options.suffix_match > 1);
  check_drafts_of_drafts(options);
  return options;
}

void check_notes(const RunOptions& options, const LanguageModel& target) {
  if (options.ngram_fill > target.vocab_size()) {
    fail("--ngram-fill {}: the target has {} tokens", options.ngram_fill, target.vocab_size());
  }
}

std::unique_ptr<Drafter> make_suffix_drafter(const RunOptions& options, const ModelFiles& files,
                                             int nodes) {
  std::vector<TokenId> earlier;
  if (!options.draft_text.empty()) earlier = read_draft_text(options.draft_text, options, files);
  return std::make_unique<SuffixDrafter>(
      SuffixDrafter::Options{
          .min_match = options.suffix_match, .nodes = nodes, .memory = options.suffix_memory},
      earlier);
}

std::unique_ptr<Drafter> make_learning_drafter(const RunOptions& options, const ModelFiles& files) {
  if (options.draft_kind == DraftKind::kSuffix) return make_suffix_drafter(options, files);
  return std::make_unique<NgramDrafter>();
}

void check_text_is_its_own(const SpeculationOptions& speculation, std::string_view with,
                           std::string_view otherwise) {
  const bool own_tokens =
      speculation.rule->rule == sample_and_match || speculation.rule->rule == coupled;
  const bool is_lenient = speculation.lenience < 1;
  const double temperature = speculation.sampling.temperature;
  if (!is_lenient && (own_tokens || temperature == 0)) return;
  fail(
      "{} {}: with {} a request's text would depend on its neighbours, because this rule emits "
      "other tokens for other drafts; {}, or {}",
      is_lenient ? "--lenience" : "--temperature", is_lenient ? speculation.lenience : temperature,
      with, is_lenient ? "use 1" : "use 0, or sample-and-match or coupled acceptance", otherwise);
}

Drafting adaptive_drafting(KeepProbs keep, bool gated) {
  Drafting drafting = sampled_drafting(keep);
  drafting.make_learning = make_learning_drafter;
  if (!gated) return drafting;
  drafting.make = [](LanguageModel& model, const Capacity& capacity, int) {
    return std::make_unique<ModelDrafter>(
        model, std::make_unique<GatedSampler>(model.backend(), model.vocab_size()),
        capacity.context + 1, capacity.requests);
  };
  return drafting;
}

ComposeDrafter composition(const RunOptions& options, const Drafting& drafting, Levels* levels) {
  if (options.fallback.empty() && options.draft_of_draft.empty()) return {};
  return [&options, drafting, levels](DraftSetup& base,
                                      const Capacity& capacity) -> std::shared_ptr<Drafter> {
    const auto main = with_drafts_below(base, options, options.draft_of_draft, capacity, levels);
    if (options.fallback.empty()) return main;
    const auto [first, second] = fallback_kinds(options);
    const bool base_is_first = first == options.draft_kind;
    RunOptions of_other = options;
    of_other.draft_kind = base_is_first ? second : first;
    of_other.inflate_draft.clear();
    of_other.draft_weights = WeightFormat::kStored;
    const auto part = make_part(std::move(of_other), base, capacity, drafting);
    const std::shared_ptr<Drafter> other(part, &part->setup->own_drafter());
    return std::make_shared<FallbackDrafter>(base_is_first ? main : other,
                                             base_is_first ? other : main, capacity.requests);
  };
}

void add_drafters(ReportExtras& extras, const RunOptions& options, const Levels& levels,
                  const RunStats& stats) {
  if (!options.fallback.empty()) extras.fields["fallback"] = options.fallback;
  if (options.ngram_fill > 0) extras.fields["ngram_fill"] = options.ngram_fill;
  if (options.draft_of_draft.empty()) return;
  extras.fields["draft_of_draft"] = options.draft_of_draft;
  extras.fields["inner_spec_length"] = options.inner_spec_length;
  for (const SpeculatingDrafter* level : levels) {
    const auto& [passes, drafted, tested, accepted] = level->counts();
    extras.stats["draft_levels"].push_back(
        {{"passes", passes}, {"drafted", drafted}, {"tested", tested}, {"accepted", accepted}});
  }
  if (levels.empty()) return;
  const auto& [passes, drafted, tested, accepted] = levels.front()->counts();
  extras.summary +=
      fmt::format("the draft's draft: {} of {} tested were accepted, {} passes for {} drafts\n",
                  accepted, tested, passes, stats.drafted);
}

double two_level_speedup(const SpeculatingDrafter::Counts& inner, int k, const RunStats& stats,
                         const Speedup& speedup) {
  const auto per = [](std::int64_t above, std::int64_t below) {
    return share(static_cast<double>(above), static_cast<double>(below));
  };
  if (inner.tested == 0 || stats.tested == 0) return Speedup::kUnknown;
  const TwoLevels levels{.draft_alpha = per(stats.accepted, stats.tested),
                         .inner_alpha = per(inner.accepted, inner.tested),
                         .draft_step = speedup.c * per(stats.drafted, inner.passes)};
  double emitted = 0, cost = 0;
  for (int K = 0; K < std::ssize(stats.rounds_by_drafted); K++) {
    const auto rounds = static_cast<double>(stats.rounds_by_drafted[K]);
    emitted += rounds * expected_emitted(levels.draft_alpha, K);
    cost += rounds * (K == 0 ? 1 : drafting_cost(levels, K, k) + speedup.v);
  }
  return emitted / cost;
}

std::function<std::string(const Speedup&)> two_levels_by_formula(const RunOptions& options,
                                                                 const Levels& levels,
                                                                 const RunStats& stats) {
  if (levels.empty() || !options.fallback.empty()) return {};  // unknown which drafts a level made
  return [inner = levels.front()->counts(), k = options.inner_spec_length,
          stats](const Speedup& speedup) -> std::string {
    const double factor = two_level_speedup(inner, k, stats, speedup);
    if (!std::isfinite(factor)) return "";
    return fmt::format(
        "two levels by formula: {:.2f}, if inner drafts are accepted independently\n", factor);
  };
}

}  // namespace specdec
