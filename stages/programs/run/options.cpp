#include "stages/programs/run/options.h"

#include "common/sampling/sampling_ranges.h"
#include "stages/programs/run/option_groups.h"

// Every option is declared here or, if it is about drafts, in drafting_options.cpp: what it takes,
// its help, the stages that have it, and whether a line of --requests may have it, too.
namespace specdec {
namespace {

constexpr IntegerRange kCounts{1, 1 << 30}, kTokensOfAPage{1, 1 << 20}, kRows{1, 1 << 20};

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
  return joined({target_options(o), prompt_options(o, stage), length_options(o),
                 device_options(o, stage), cache_options(o, stage),
                 drafting_options(o, stage, listings), sampling_options(o, stage, listings),
                 batch_options(o, stage), output_options(o)});
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
