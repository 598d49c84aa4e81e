#include "stages/programs/run/option_groups.h"

namespace specdec {
namespace {

constexpr IntegerRange kFills{0, 64}, kSuffixMatches{1, 7}, kSuffixMemories{0, 10'000'000};

Options draft_options(RunOptions& o, int stage) {
  const Stages stages = kDrafting;
  const bool trees = kTreeShapes.has(stage);
  const auto chains = names_where(kDrafters, " or ", [](const auto& d) { return !d.branches; });
  return {
      {"--draft DIR",
       kSeveralDrafts.has(stage)
           ? fmt::format("the draft model's checkpoint directory; with {} repeatable: the chains "
                         "are dealt to the drafts",
                         name_of(TreeKind::kChains))
           : "the draft model's checkpoint directory",
       Several{&o.draft, &o.other_drafts, kSeveralDrafts},
       {.stages = stages, .otherwise = "the embedded draft"}},
      weights_option("--draft-weights FORMAT", "the draft's", &o.draft_weights, stages),
      inflation_option("--inflate-draft SHAPE", "the draft model", &o.inflate_draft, stages),
      {"--draft-kind KIND",
       with_list(trees ? fmt::format("what drafts; with {} give --tree {}:1", chains,
                                     name_of(TreeKind::kChains))
                       : "what drafts",
                 kDrafters, stage),
       one_of(&o.draft_kind),
       {.stages = stages,
        .otherwise = kSelf.has(stage) && trees ? "heads where there are some, else llama" : "",
        .given = &o.given_draft_kind}},
      {"--draft-text FILE",
       fmt::format("the text that {} count{}",
                   names_where(kDrafters, " and ",
                               [](const auto& d) { return d.needs == DraftNeeds::kText; }),
                   kAdaptive.has(stage)
                       ? fmt::format(", and that {} counts besides a request's own",
                                     name_of(DraftKind::kSuffix))
                       : ""),
       &o.draft_text,
       {.stages = stages,
        .otherwise =
            kAdaptive.has(stage) ? "an embedded one, and none for suffix" : "an embedded one"}},
  };
}

Options round_options(RunOptions& o, int stage) {
  const std::string_view automatic =
      kAdaptive.has(stage) ? ", or auto: as many as pay, by what rounds cost and how good "
                             "the drafts have been"
                           : "";
  return {
      {"--spec-length K",
       fmt::format("K, tokens drafted per round: 1 to {}{}", kSpecLengths.highest, automatic),
       IntegerOrAuto{&o.spec_length, kSpecLengths, &o.auto_spec_length, kLargestAutoSpecLength,
                     kAdaptive, &o.given_spec_length},
       {.stages = kDrafting,
        .per_request = stage < kFirstTreeStage}},  // a tree's shape has its own levels
      {"--no-speculation",
       "decode without speculation, for comparison",
       &o.no_speculation,
       {.stages = kDrafting, .per_request = true}},
      {"--trace FILE",
       "write every round with all its decisions (JSON)",
       &o.trace,
       {.stages = kDrafting, .is_output = true}},
  };
}

// How long to draft, and what drafts.
Options adaptive_options(RunOptions& o, int stage) {
  const Stages stages = kAdaptive, of_chains{kFirstAdaptiveStage, kFirstTreeStage - 1};
  const OptionTraits each{.stages = stages, .per_request = true};
  return {
      {"--draft-length HOW",
       with_list(
           "what chooses K of each round, up to --spec-length; by default, up to what pays if "
           "drafts are good, at most 16",
           kPolicies, stage),
       one_of(&o.draft_length), each},
      {"--min-spec-length K",
       fmt::format("the least K of {} and {}", name_of(DraftLength::kEntropy),
                   name_of(DraftLength::kSchedule)),
       Integer{&o.min_spec_length, kSpecLengths}, each},
      {"--confidence X",
       fmt::format("{}: end a round's drafts where no token has probability X",
                   name_of(DraftLength::kConfidence)),
       Number{&o.confidence, {.lowest = 0, .highest = 1}}, each},
      {"--entropy-smoothing X",
       fmt::format("{}: weight of earlier rounds in a running mean, below 1",
                   name_of(DraftLength::kEntropy)),
       Number{&o.entropy_smoothing, {.lowest = 0, .highest = 1, .below_highest = true}}, each},
      {"--cost-profile FILE",
       fmt::format("the costs of passes that --rows {} uses, and every way to choose K but {}; "
                   "measured and written if there is no such file",
                   kAuto, name_of(DraftLength::kFixed)),
       &o.cost_profile,
       {.stages = stages, .otherwise = "one beside the programs"}},
      {"--fallback KIND,KIND",
       fmt::format("two drafters instead of --draft-kind: the second drafts where the first finds "
                   "nothing, as in {},{}",
                   name_of(DraftKind::kLookup), name_of(DraftKind::kLlama)),
       &o.fallback,
       {.stages = stages, .excludes = {"--draft-kind"}}},
      {"--draft-of-draft DIR|KIND",
       fmt::format("a draft for the draft model: a checkpoint directory, or one of {}; repeatable: "
                   "each drafts for the one before",
                   names_where(kDrafters, ", ",
                               [](const auto& d) { return d.needs < DraftNeeds::kModel; })),
       &o.draft_of_draft,
       {.stages = stages}},
      {"--inner-spec-length K",
       "tokens drafted per round for the draft model",
       Integer{&o.inner_spec_length, kSpecLengths},
       {.stages = stages}},
      {"--ngram-fill K",
       fmt::format("{} also learns the K tokens that the target found likeliest in each place that "
                   "it wrote, for which a GPU copies its logits to the host; 0: the text alone",
                   name_of(DraftKind::kNgram)),
       Integer{&o.ngram_fill, kFills},
       {.stages = of_chains}},
      {"--suffix-match N",
       fmt::format("{}: the fewest tokens that must have occurred before",
                   name_of(DraftKind::kSuffix)),
       Integer{&o.suffix_match, kSuffixMatches},
       {.stages = stages}},
      {"--suffix-memory N",
       fmt::format("{}: tokens of finished requests that others' drafts also come from, the oldest "
                   "forgotten first; 0: none",
                   name_of(DraftKind::kSuffix)),
       Integer{&o.suffix_memory, kSuffixMemories},
       {.stages = stages}},
      {"--rows N",
       "rows that the drafts of all requests get in a pass of the target, the likeliest drafts "
       "first, or auto: as many as pay, by what passes cost",
       IntegerOrAuto{&o.rows, kRows, &o.auto_rows, 0, stages},
       {.stages = stages,
        .otherwise = "all drafts get one",
        .excludes = {"--no-speculation"},
        .given = &o.given_rows}},
      {"--rows-change-texts",
       "with --rows, also serve requests whose texts then depend on the other requests; each needs "
       "a seed of its own",
       &o.rows_change_texts,
       {.stages = of_chains, .excludes = {"--serve"}, .needs = {"--rows"}}},
      {"--all-places",
       "afterwards, try a draft at every place of the text: alpha over all places, and what an "
       "oracle would gain",
       &o.all_places,
       {.stages = of_chains, .excludes = {"--requests", "--workload", "--no-speculation"}}},
  };
}

// Several drafts at once.
Options tree_options(RunOptions& o, int stage, const Listings& listings) {
  const Stages stages = kTreeShapes;
  return {
      {"--tree SHAPE",
       with_list(
           "the tree's shape, which the chapter on token trees explains; lookup copies as many "
           "continuations as the tree has nodes per level, at least 1; a request of a batch may "
           "have a smaller one",
           kTrees, stage),
       &o.tree,
       {.stages = stages, .per_request = true}},
      rule_option("--siblings RULE", "how drafts that follow the same token are judged",
                  &o.siblings, listings.siblings, {.stages = stages}),
      {"--tree-profile FILE",
       fmt::format("the acceptances by rank that {}:N is the best shape for",
                   name_of(TreeKind::kBest)),
       &o.tree_profile,
       {.stages = stages,
        .otherwise = "those of the embedded pair",
        .excludes = {"--no-speculation"}}},
      {"--write-tree-profile FILE",
       fmt::format("count acceptances by rank in this run, with --tree {}:WIDTHS, and write them "
                   "together with those of --tree-profile",
                   name_of(TreeKind::kTop)),
       &o.write_tree_profile,
       {.stages = stages,
        .excludes = {"--no-speculation", "--requests", "--workload"},
        .is_output = true}},
  };
}

// The target drafts for itself.
Options self_options(RunOptions& o, int stage) {
  const Stages stages = kSelf;
  return {
      {"--self-draft KIND",
       with_list("which heads draft", kSelfDrafters, stage),
       one_of(&o.self_draft),
       {.stages = stages, .given = &o.given_self_draft}},
      {"--heads DIR",
       "the heads' folder, with config.json and model.safetensors, which tells their kind",
       &o.heads,
       {.stages = stages, .otherwise = "those that come with the target"}},
      {"--markov DIR",
       fmt::format("with --self-draft {} or {}: the folder of a head that corrects each draft by "
                   "the one before",
                   name_of(SelfDraftKind::kParallel), name_of(SelfDraftKind::kLookahead)),
       &o.markov,
       {.stages = stages}},
  };
}

// Several texts at once, of which the best remain.
Options beam_options(RunOptions& o) {
  const OptionTraits each{.stages = stages_from(kFirstBeamStage), .per_request = true};
  const auto otherwise = [&](std::string_view value) {
    OptionTraits traits = each;
    traits.otherwise = value;
    return traits;
  };
  return {
      {"--beams N", "texts that a search carries on side by side", Integer{&o.beams, kBeams},
       otherwise("4; in a batch, a request without beams is no search")},
      {"--draft-beams N", "the same for the draft, at least as many",
       Integer{&o.draft_beams, kBeams}, otherwise("6, or --beams if that is more")},
      {"--length-penalty X",
       "a finished text is worth the sum of its log-probabilities / (its generated tokens)^X",
       Number{&o.length_penalty, kLengthPenalties}, each},
      {"--early-stopping WHEN",
       with_list("when to stop, with --beams finished texts", kBeamStops, INT_MAX),
       one_of(&o.early_stopping), each},
      {"--num-return N", "how many finished texts to show, the best first",
       Integer{&o.num_return, kBeams}, each},
  };
}

}  // namespace

Options drafting_options(RunOptions& o, int stage, const Listings& listings) {
  return joined({draft_options(o, stage), round_options(o, stage), adaptive_options(o, stage),
                 tree_options(o, stage, listings), self_options(o, stage), beam_options(o)});
}

}  // namespace specdec
