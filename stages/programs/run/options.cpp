#include "stages/programs/run/options.h"

#include <climits>
#include <utility>

#include <fmt/format.h>

#include "common/inflation/inflated_config.h"
#include "common/sampling/sampling_ranges.h"

// Every option is declared here, and only here: what it takes, its help, the stages that have it,
// and whether a line of --requests may have it, too.
namespace specdec {
namespace {

constexpr IntegerRange kCounts{1, 1 << 30}, kTokensOfAPage{1, 1 << 20}, kRows{1, 1 << 20},
    kFills{0, 64}, kSuffixMatches{1, 7}, kSuffixMemories{0, 10'000'000};

constexpr Stages kDrafting = stages_from(kFirstDraftingStage);
// Beam search has rules of its own for what follows what.
constexpr int kLastTextStage = kFirstBeamStage - 1;
constexpr Stages kTexts{1, kLastTextStage}, kSampling{kFirstSamplingStage, kLastTextStage},
    kBatches = stages_from(kFirstBatchStage), kAdaptive{kFirstAdaptiveStage, kLastTextStage},
    kTreeShapes{kFirstTreeStage, kLastTextStage}, kSelf = stages_from(kFirstSelfStage);

using Options = std::vector<Option>;

// A line of help, and a line for each entry of a table that the stage has.
template <typename Table>
std::string with_list(std::string help, const Table& table, int stage) {
  for (const auto& entry : table) {
    if (entry.since > stage) continue;
    if constexpr (requires { entry.last; }) {
      if (entry.last < stage) continue;
    }
    std::string name(entry.name);
    if constexpr (requires { entry.sizes; }) name += fmt::format(":{}", entry.sizes);
    help += fmt::format("\n  {:<17}{}", name, entry.summary);
  }
  return help;
}

// An option that names a rule. The first rule is the default.
Option rule_option(std::string_view usage, std::string help, std::string* rule,
                   const std::vector<Named>& rules, OptionTraits traits) {
  if (!rules.empty()) traits.otherwise = rules.front().name;
  return {usage, with_list(std::move(help), rules, INT_MAX), rule, traits};
}

Option weights_option(std::string_view usage, std::string_view whose, WeightFormat* format,
                      Stages stages) {
  return {usage,
          fmt::format("{} weights: stored, or int8 (rounded; half the bytes of bf16)", whose),
          one_of(format),
          {.stages = stages}};
}

// Excludes --check, because golden files belong to a model that is not inflated.
Option inflation_option(std::string_view usage, std::string_view whose, std::string* shape,
                        Stages stages) {
  return {usage,
          fmt::format("embed {} in a larger shape: the same text at the cost of the larger model; "
                      "{} or a config.json",
                      whose, named_shapes()),
          shape,
          {.stages = stages, .excludes = {"--check"}}};
}

Options target_options(RunOptions& o) {
  return {
      {"--target DIR",
       "checkpoint directory in Hugging Face's layout",
       &o.target,
       {.otherwise = "the embedded target"}},
      weights_option("--target-weights FORMAT", "the target's", &o.target_weights, stages_from(2)),
      inflation_option("--inflate-target SHAPE", "the target", &o.inflate_target, stages_from(2)),
  };
}

// Stage 6 runs a batch by default; later stages run one if an option asks for it.
bool batches_by_default(int stage) { return stage == kFirstBatchStage; }

Options prompt_options(RunOptions& o, int stage) {
  const bool batches = batches_by_default(stage);
  return {
      {"--prompt TEXT",
       batches ? "text to continue, as the only request" : "text to continue",
       GivenText{&o.prompt, &o.has_prompt},
       {.otherwise = batches ? "" : "a built-in one", .per_request = true}},
      {"--prompt-ids IDS",
       "token ids to continue, as 1,2,3",
       &o.prompt_ids,
       {.per_request = true, .excludes = {"--prompt"}}},
      {"--chat TEXT",
       "a user's message to answer",
       GivenText{&o.chat, &o.has_chat},
       {.per_request = true, .excludes = {"--prompt", "--prompt-ids"}}},
      {"--system TEXT",
       "the chat's system message",
       &o.system,
       {.per_request = true, .needs = {"--chat"}}},
      {"--chat-file FILE",
       "a chat of several turns to answer: a JSON list of messages with role and content",
       &o.chat_file,
       {.excludes = {"--prompt", "--prompt-ids", "--chat"}}},
  };
}

Options length_options(RunOptions& o) {
  return {
      {"--max-new-tokens N",
       "stop after N tokens",
       Integer{&o.max_new_tokens, kNewTokens},
       {.per_request = true}},
      {"--ignore-eos", "go on after an end-of-text token", &o.ignore_eos, {.per_request = true}},
      {"--stop TEXT",
       "stop before this text (repeatable)",
       &o.stop,
       {.stages = kTexts, .per_request = true}},
      {"--max-context N",
       "positions that may be used",
       Integer{&o.max_context, kContextSizes},
       {.otherwise = "prompt + max-new-tokens + drafted tokens", .per_request = true}},
  };
}

Options device_options(RunOptions& o, int stage) {
  return {
      {"--device NAME",
       stage == 1 ? "auto or cpu"
                  : "auto, cpu, cuda, or emulated: the CUDA kernels on the CPU, slowly",
       one_of(&o.device)},
      {"--threads N",
       "CPU threads",
       Integer{&o.threads, {1, 1024}},
       {.stages = stages_from(2), .otherwise = "all cores"}},
      {"--gemm NAME",
       "matrix products: invariant, or cublas on a GPU",
       one_of(&o.gemm),
       {.stages = stages_from(2)}},
  };
}

Options cache_options(RunOptions& o, int stage) {
  const Stages stages = stages_from(3);
  const bool batches = kBatches.has(stage);
  return {
      {"--kv-dtype TYPE",
       "numbers in the caches: f32, or bf16 (rounded: half the bytes; a few texts differ)",
       one_of(&o.kv_type),
       {.stages = stages_from(2)}},
      {"--cache KIND", "contiguous or paged", one_of(&o.cache), {.stages = stages}},
      {"--page-size N",
       "tokens per page",
       Integer{&o.page_size, kTokensOfAPage},
       {.stages = stages}},
      {"--draft-page-size N",
       "the same for a draft model's cache",
       Integer{&o.draft_page_size, kTokensOfAPage},
       {.stages = stages}},
      {"--pages N",
       batches ? "pages in the target's pool" : "pages in the pool",
       Integer{&o.pages, kCounts},
       {.stages = stages,
        .otherwise = batches ? "enough for the requests" : "enough for the request"}},
  };
}

Options draft_options(RunOptions& o, int stage) {
  const Stages stages = kDrafting;
  const bool trees = kTreeShapes.has(stage);
  const auto chains = names_where(kDrafters, " or ", [](const auto& d) { return !d.branches; });
  return {
      {"--draft DIR",
       "the draft model's checkpoint directory",
       &o.draft,
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
        .per_request = stage < kFirstTreeStage}},  // one shape of tree for all requests
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
       fmt::format("the costs of passes that every way to choose K but {} uses; measured and "
                   "written if there is no such file",
                   name_of(DraftLength::kFixed)),
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
           "continuations as the tree has nodes per level, at least 1",
           kTrees, stage),
       &o.tree,
       {.stages = stages}},
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

Options sampling_options(RunOptions& o, int stage, const Listings& listings) {
  const OptionTraits each{.stages = kSampling, .per_request = true};
  OptionTraits of_draft = each;
  of_draft.otherwise = "the target's";
  const bool trees = kTreeShapes.has(stage);
  OptionTraits of_rule = each;
  of_rule.per_request = !trees;  // one rule for all requests
  const auto noted = [&](bool* given) {
    OptionTraits traits = each;
    traits.given = given;
    return traits;
  };
  GivenSampling& given = o.given_sampling;
  return {
      {"--temperature X", "0: always the likeliest token",
       Number{&o.sampling.temperature, kTemperatures}, noted(&given.temperature)},
      {"--top-k N", "sample from the N likeliest tokens; 0: from all",
       Integer{&o.sampling.top_k, {.lowest = 0}}, noted(&given.top_k)},
      {"--top-p X", "sample from the likeliest tokens that together have probability X",
       Number{&o.sampling.top_p, kTopPs}, noted(&given.top_p)},
      {"--repetition-penalty X", "make tokens of the text less likely; 1: off",
       Number{&o.sampling.repetition_penalty, kRepetitionPenalties},
       noted(&given.repetition_penalty)},
      {"--generation-config",
       "take those four from the target's generation_config.json, unless they are given",
       &o.generation_config,
       {.stages = each.stages, .excludes = {"--check"}}},
      {"--seed N", "the seed of all random numbers", &o.seed, each},
      {"--draft-temperature X", "the draft's temperature",
       OptionalNumber{&o.draft_temperature, kTemperatures}, of_draft},
      rule_option("--acceptance RULE",
                  trees ? "the same as --siblings" : "how drafted tokens are judged", &o.acceptance,
                  listings.rules, of_rule),
      {"--lenience X", "lossy: accept tokens up to 1/X times as often as the target allows; 1: off",
       Number{&o.lenience, {.lowest = 0, .highest = 1, .above_lowest = true, .remark = "1: none"}},
       each},
  };
}

Options batch_options(RunOptions& o, int stage) {
  const Stages stages = kBatches, serving{kFirstBatchStage, kLastTextStage};
  return {
      {"--requests FILE",
       "JSON Lines, one request per line; -: stdin",
       &o.requests,
       {.stages = stages,
        .otherwise = batches_by_default(stage) ? "a workload" : "",
        .excludes = {"--prompt", "--prompt-ids", "--chat", "--chat-file", "--workload"}}},
      {"--workload SPEC",
       "made-up requests: poisson:rate=20,n=32 means 32 of them, 20 per second (rate=inf: all at "
       "once)",
       &o.workload,
       {.stages = stages, .excludes = {"--prompt", "--prompt-ids", "--chat", "--chat-file"}}},
      {"--serve HOST:PORT",
       "serve requests over HTTP, in the protocol of OpenAI's API, until Ctrl-C; 127.0.0.1:8080 is "
       "for this machine only",
       &o.serve,
       {.stages = serving,
        .excludes = {"--prompt", "--prompt-ids", "--chat", "--chat-file", "--requests",
                     "--workload", "--trace", "--report", "--check", "--all-places",
                     "--write-tree-profile"}}},
      {"--api-key-file FILE",
       "--serve: the key that clients must have is in this file",
       &o.api_key_file,
       {.stages = serving, .otherwise = "no key", .needs = {"--serve"}}},
      {"--allow-origin SITE",
       "--serve: pages of this site may use the server, as https://example.org; *: of all sites",
       &o.allow_origin,
       {.stages = serving, .otherwise = "only its own page", .needs = {"--serve"}}},
      {"--max-queue N",
       "--serve: most requests that wait; more are told to come back",
       Integer{&o.max_queue, {1, 100'000}},
       {.stages = serving, .needs = {"--serve"}}},
      {"--max-connections N",
       "--serve: most connections at the same time, half of them from one address",
       Integer{&o.max_connections, {1, 10'000}},
       {.stages = serving, .needs = {"--serve"}}},
      {"--max-batch N",
       "most requests that run at the same time",
       Integer{&o.max_batch, {1, 1024}},
       {.stages = stages}},
      {"--token-budget N",
       "most tokens in a pass of the target; a line of --requests whose K needs more is refused",
       Integer{&o.token_budget, kRows},
       {.stages = stages, .otherwise = "enough for --max-batch requests"}},
      {"--prefill-chunk N",
       "most tokens of a prompt in one pass",
       Integer{&o.prefill_chunk, kRows},
       {.stages = stages}},
      {"--draft-pages N",
       "pages in the draft's pool",
       Integer{&o.draft_pages, kCounts},
       {.stages = stages, .otherwise = "enough for the requests"}},
      {"--no-prefix-cache",
       "compute every prompt in full, even where another one begins with the same tokens",
       &o.no_prefix_cache,
       {.stages = stages}},
  };
}

Options output_options(RunOptions& o) {
  const Stages one_sequence{1, kFirstBatchStage - 1};
  return {
      {"--output FORMAT", "text or json", one_of(&o.output)},
      {"--report FILE",
       "write the JSON of --output json to this file as well",
       &o.report,
       {.is_output = true}},
      {"--quiet", "print the text alone", &o.quiet},
      {"--explain", "show what happens inside", &o.explain},
      {"--check", "compare this stage with the golden files, and exit", &o.check},
      {"--goldens DIR",
       "--check: the target's golden files",
       &o.goldens,
       {.otherwise = "those of the embedded target"}},
      {"--dump FILE",
       "write the tensors of the prompt's forward pass (safetensors)",
       &o.dump,
       {.stages = one_sequence, .is_output = true}},
      {"--dump-logits FILE",
       "write the logits that decided each token",
       &o.dump_logits,
       {.stages = one_sequence, .is_output = true}},
  };
}

}  // namespace

std::vector<Option> all_options(int stage, RunOptions& o, const Listings& listings) {
  Options all;
  for (const Options& group :
       {target_options(o), prompt_options(o, stage), length_options(o), device_options(o, stage),
        cache_options(o, stage), draft_options(o, stage), round_options(o, stage),
        adaptive_options(o, stage), tree_options(o, stage, listings), self_options(o, stage),
        beam_options(o), sampling_options(o, stage, listings), batch_options(o, stage),
        output_options(o)}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

std::vector<Option> options_of_stage(int stage, RunOptions& options, const Listings& listings) {
  Options all = all_options(stage, options, listings);
  std::erase_if(all, [=](const Option& option) { return !option.traits.stages.has(stage); });
  return all;
}

std::vector<Option> options_of_other_stages(int stage) {
  static RunOptions unused;
  Options all = all_options(stage, unused);
  std::erase_if(all, [=](const Option& option) { return option.traits.stages.has(stage); });
  return all;
}

}  // namespace specdec
