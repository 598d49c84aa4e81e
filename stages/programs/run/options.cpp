#include "stages/programs/run/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include <CLI/CLI.hpp>

#include "common/base/error.h"

namespace specdec {
namespace {

constexpr std::array<std::string_view, 8> kStageNames = {
    "00_toy_speculation",      "01_naive_decoder",      "02_contiguous_kv_cache",
    "03_paged_kv_cache",       "04_greedy_speculation", "05_rejection_sampling",
    "06_batched_verification", "07_adaptive_drafting"};

struct StagedOption {
  std::string_view name;
  int first_stage;
  int last_stage = 7;
};

// The options that not all stages have.
constexpr StagedOption kStagedOptions[] = {
    {"--threads", 2},        {"--gemm", 2},
    {"--target-weights", 2}, {"--draft-weights", 4},
    {"--cache", 3},          {"--page-size", 3},
    {"--pages", 3},          {"--draft-page-size", 3},
    {"--draft", 4},          {"--draft-kind", 4},
    {"--draft-text", 4},     {"--spec-length", 4},
    {"--inflate-target", 2}, {"--inflate-draft", 4},
    {"--trace", 4},          {"--no-speculation", 4},
    {"--temperature", 5},    {"--top-k", 5},
    {"--top-p", 5},          {"--repetition-penalty", 5},
    {"--seed", 5},           {"--draft-temperature", 5},
    {"--acceptance", 5},     {"--lenience", 5},
    {"--requests", 6},       {"--workload", 6},
    {"--max-batch", 6},      {"--token-budget", 6},
    {"--draft-pages", 6},    {"--prefill-chunk", 6},
    {"--dump", 1, 5},        {"--no-prefix-cache", 6},
    {"--dump-logits", 1, 5}, {"--cost-profile", 7},
};

void refuse_options_of_other_stages(CLI::App& app, int stage) {
  for (const StagedOption& option : kStagedOptions) {
    if (option.first_stage <= stage && stage <= option.last_stage) continue;
    const std::string name(option.name);
    const int has_it = stage < option.first_stage ? option.first_stage : option.last_stage;
    app.add_option_function<std::vector<std::string>>(name,
                                                      [=](const std::vector<std::string>&) {
                                                        fail("this stage has no {}; {} has it",
                                                             name, stage_name(has_it));
                                                      })
        ->expected(0, 1)
        ->trigger_on_parse()
        ->group("");  // not in --help
  }
}

CLI::Range in(IntegerRange range) { return {range.lowest, range.highest}; }

// "1,2,3", and nothing else.
std::vector<TokenId> parse_ids(std::string_view text) {
  std::vector<TokenId> ids;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string_view number = text.substr(start, end - start);
    TokenId id = 0;
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size()) {
      fail("--prompt-ids: '{}' is no token id; give them as 1,2,3", number);
    }
    ids.push_back(id);
    start = end + 1;
  }
  return ids;
}

std::uint64_t parse_seed(std::string_view text) {
  std::uint64_t seed = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    fail("--seed is '{}'; it takes a whole number from 0 to 2^64 - 1", text);
  }
  return seed;
}

void parse_spec_length(std::string_view text, RunOptions& options) {
  options.auto_spec_length = text == "auto";
  if (options.auto_spec_length && options.stage < 7) {
    fail("--spec-length auto: K is fixed in this stage; {} chooses it", stage_name(7));
  }
  if (options.auto_spec_length) {
    options.spec_length = kLargestAutoSpecLength;
    return;
  }
  int length = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), length);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() ||
      !kSpecLengths.has(length)) {
    fail("--spec-length is '{}'; it takes a number of tokens from {} to {}, or auto", text,
         kSpecLengths.lowest, kSpecLengths.highest);
  }
  options.spec_length = length;
}

void add_weights_option(CLI::App& app, std::string name, std::string& format, std::string whose) {
  app.add_option(std::move(name), format,
                 std::move(whose) + " weights: stored, or int8 (rounded; half the bytes of bf16)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"stored", "int8"}))
      ->capture_default_str();
}

void add_prompt_options(CLI::App& app, RunOptions& o, int stage) {
  app.add_option("--target", o.target,
                 "checkpoint directory in Hugging Face's layout (default: the embedded target)")
      ->type_name("DIR");
  if (stage >= 2) add_weights_option(app, "--target-weights", o.target_weights, "the target's");
  auto* prompt = app.add_option_function<std::string>(
      "--prompt",
      [&o](const std::string& text) {
        o.prompt = text;
        o.has_prompt = true;
      },
      stage >= 6 ? "text to continue, as the only request"
                 : "text to continue (default: a built-in one)");
  prompt->type_name("TEXT");
  auto* ids = app.add_option_function<std::string>(
      "--prompt-ids", [&o](const std::string& text) { o.prompt_ids = parse_ids(text); },
      "token ids to continue, as 1,2,3");
  ids->type_name("IDS")->excludes(prompt);
  auto* chat = app.add_option_function<std::string>(
      "--chat",
      [&o](const std::string& text) {
        o.chat = text;
        o.has_chat = true;
      },
      "a user's message to answer");
  chat->type_name("TEXT")->excludes(prompt)->excludes(ids);
  app.add_option("--system", o.system, "the chat's system message")->type_name("TEXT")->needs(chat);
}

void add_length_options(CLI::App& app, RunOptions& o) {
  app.add_option("--max-new-tokens", o.max_new_tokens, "stop after so many tokens")
      ->type_name("N")
      ->check(in(kNewTokens))
      ->capture_default_str();
  app.add_flag("--ignore-eos", o.ignore_eos, "go on after an end-of-text token");
  app.add_option("--stop", o.stop, "stop before this text (repeatable)")
      ->type_name("TEXT")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--max-context", o.max_context,
                 "positions that may be used (default: the prompt + max-new-tokens, and drafts)")
      ->type_name("N")
      ->check(in(kContextSizes));
}

void add_device_options(CLI::App& app, RunOptions& o, int stage) {
  app.add_option("--device", o.device,
                 stage == 1 ? "auto or cpu"
                            : "auto, cpu, cuda, or emulated: the CUDA kernels on the CPU, slowly")
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "cpu", "cuda", "emulated"}))
      ->capture_default_str();
  if (stage < 2) return;
  app.add_option("--threads", o.threads, "CPU threads (default: all cores)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  app.add_option("--gemm", o.gemm, "matrix products: invariant, or cublas on a GPU")
      ->type_name("NAME")
      ->check(CLI::IsMember({"invariant", "cublas"}))
      ->capture_default_str();
}

void add_cache_options(CLI::App& app, RunOptions& o, int stage) {
  app.add_option("--cache", o.cache, "contiguous or paged")
      ->type_name("KIND")
      ->check(CLI::IsMember({"contiguous", "paged"}))
      ->capture_default_str();
  app.add_option("--page-size", o.page_size, "tokens in a page")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--draft-page-size", o.draft_page_size, "the same for a draft model's cache")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--pages", o.pages,
                 stage >= 6 ? "pages in the target's pool (default: enough for the requests)"
                            : "pages in the pool (default: enough for the request)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 30));
}

void add_draft_options(CLI::App& app, RunOptions& o) {
  app.add_option("--draft", o.draft,
                 "the draft model's checkpoint directory (default: the embedded draft)")
      ->type_name("DIR");
  add_weights_option(app, "--draft-weights", o.draft_weights, "the draft's");
  app.add_option(
         "--draft-kind", o.draft_kind,
         "what drafts: llama (the draft model), self (the target, or its int8 copy), random, "
         "unigram, bigram, lookup (copies from the text)")
      ->type_name("KIND")
      ->check(CLI::IsMember({"llama", "self", "random", "unigram", "bigram", "lookup"}))
      ->capture_default_str();
  app.add_option("--draft-text", o.draft_text,
                 "the text that unigram and bigram are counted from (default: an embedded one)")
      ->type_name("FILE");
  app.add_option_function<std::string>(
         "--spec-length", [&o](const std::string& text) { parse_spec_length(text, o); },
         o.stage >= 7 ? "K, tokens drafted per round: 1 to 32, or auto: as many as pay, by what "
                        "rounds cost and how good the drafts have been"
                      : "K, tokens drafted per round: 1 to 32")
      ->type_name("K")
      ->default_str("5");
  if (o.stage >= 7) {
    app.add_option("--cost-profile", o.cost_profile,
                   "the costs that auto uses; measured and written where there is no such file "
                   "(default: one beside the programs)")
        ->type_name("FILE");
  }
  app.add_flag("--no-speculation", o.no_speculation, "decode plainly, for comparison");
  app.add_option("--trace", o.trace, "write every round, with all that was decided (JSON)")
      ->type_name("FILE");
}

void add_sampling_options(CLI::App& app, RunOptions& o) {
  app.add_option("--temperature", o.sampling.temperature, "0: always the likeliest token")
      ->type_name("X")
      ->capture_default_str();
  app.add_option("--top-k", o.sampling.top_k, "sample from the N likeliest tokens; 0: from all")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--top-p", o.sampling.top_p, "sample from the likeliest that hold X together")
      ->type_name("X")
      ->capture_default_str();
  app.add_option("--repetition-penalty", o.sampling.repetition_penalty,
                 "makes tokens of the text less likely; 1: off")
      ->type_name("X")
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--seed", [&o](const std::string& text) { o.seed = parse_seed(text); },
         "of all random numbers")
      ->type_name("N")
      ->default_str("0");
  app.add_option("--draft-temperature", o.draft_temperature,
                 "the draft's temperature (default: the target's)")
      ->type_name("X");
  app.add_option(
         "--acceptance", o.acceptance,
         "how drafts are judged: rejection, at-least, non-iterative, sample-and-match, one-hot, "
         "coupled; lossy: residual-skipped")
      ->type_name("RULE")
      ->capture_default_str();
  app.add_option("--lenience", o.lenience, "lossy: accept more, up to 1/X times too often; 1: off")
      ->type_name("X")
      ->capture_default_str();
}

void add_batch_options(CLI::App& app, RunOptions& o) {
  auto* requests = app.add_option("--requests", o.requests,
                                  "JSON Lines, a request each; -: stdin (default: a workload)");
  auto* workload = app.add_option("--workload", o.workload,
                                  "requests made up, as poisson:rate=20,n=32: 32 of them, 20 a "
                                  "second (rate=inf: all at once)");
  requests->type_name("FILE")->excludes(workload);
  workload->type_name("SPEC");
  for (const char* prompt : {"--prompt", "--prompt-ids", "--chat"}) {
    requests->excludes(app.get_option(prompt));
    workload->excludes(app.get_option(prompt));
  }
  app.add_option("--max-batch", o.max_batch, "requests that run at a time")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--token-budget", o.token_budget,
                 "tokens in a pass of the target (default: enough for --max-batch requests)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--prefill-chunk", o.prefill_chunk, "tokens of a prompt in one pass")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--draft-pages", o.draft_pages,
                 "pages in the draft's pool (default: enough for the requests)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 30));
  app.add_flag("--no-prefix-cache", o.no_prefix_cache,
               "compute every prompt, also where another one begins alike");
}

// Golden files are about a model as it is.
void add_inflation_options(CLI::App& app, RunOptions& o, int stage) {
  const auto add = [&](const char* name, std::string& shape, const char* whose) {
    app.add_option(name, shape,
                   fmt::format("embed {} in a larger shape, with the same text at the larger one's "
                               "cost: 3b, 1b, 134m, 14m or a config.json",
                               whose))
        ->type_name("SHAPE")
        ->excludes(app.get_option("--check"));
  };
  if (stage >= 2) add("--inflate-target", o.inflate_target, "the target");
  if (stage >= 4) add("--inflate-draft", o.inflate_draft, "the draft model");
}

// They are about one sequence, and stage 6 has many.
void add_dump_options(CLI::App& app, RunOptions& o) {
  app.add_option("--dump", o.dump, "write the tensors of the prompt's forward pass (safetensors)")
      ->type_name("FILE");
  app.add_option("--dump-logits", o.dump_logits, "write the logits that decided each token")
      ->type_name("FILE");
}

void add_output_options(CLI::App& app, RunOptions& o) {
  app.add_option("--output", o.output, "text or json")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.add_option("--report", o.report, "write the JSON of --output json to this file as well")
      ->type_name("FILE");
  app.add_flag("--quiet", o.quiet, "print the text alone");
  app.add_flag("--explain", o.explain, "show what happens inside");
  app.add_flag("--check", o.check, "compare this stage with the golden files, and exit");
  app.add_option("--goldens", o.goldens,
                 "--check: the target's golden files (default: those of the embedded target)")
      ->type_name("DIR");
  app.set_version_flag("--version", "specdec " SPECDEC_VERSION);
}

}  // namespace

std::string stage_name(int stage) {
  return std::string(kStageNames[static_cast<std::size_t>(stage)]);
}

void add_run_options(CLI::App& app, int stage, RunOptions& options) {
  options.stage = stage;
  add_prompt_options(app, options, stage);
  add_length_options(app, options);
  add_device_options(app, options, stage);
  if (stage >= 3) add_cache_options(app, options, stage);
  if (stage >= 4) add_draft_options(app, options);
  if (stage >= 5) add_sampling_options(app, options);
  if (stage >= 6) add_batch_options(app, options);
  add_output_options(app, options);
  add_inflation_options(app, options, stage);
  if (stage <= 5) add_dump_options(app, options);
  refuse_options_of_other_stages(app, stage);
}

}  // namespace specdec
