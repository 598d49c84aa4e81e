#include "stages/programs/sampling/golden_run.h"

#include "common/base/error.h"
#include "common/base/json.h"
#include "common/base/json_value.h"
#include "stages/programs/check/golden_text.h"
#include "stages/programs/comparator/number_lists.h"
#include "stages/programs/run/options.h"

namespace specdec {
namespace {

int integer_in(const JsonObject& fields, const std::string& key, const IntegerRange& range) {
  const int number = fields.required_integer(key);
  if (!range.has(number)) {
    fail("{}: {} is {}; it takes {} to {}", fields.name(), key, number, range.lowest,
         range.highest);
  }
  return number;
}

std::vector<JsonObject> objects(const JsonObject& fields, const std::string& key) {
  std::vector<JsonObject> objects;
  for (const Json& entry : fields.required_list(key)) {
    objects.emplace_back(entry, fmt::format("{}: {}[{}]", fields.name(), key, objects.size()));
  }
  return objects;
}

GoldenRound read_round(const JsonObject& fields, int vocab_size) {
  GoldenRound round{.start = fields.required_integer("start"),
                    .spec_length = fields.required_integer("spec_length"),
                    .accepted = fields.required_integer("accepted"),
                    .target_length = fields.required_integer("target_length"),
                    .draft_length = fields.required_integer("draft_length"),
                    .drafts = {},
                    .emitted = read_tokens(fields, "emitted", vocab_size),
                    .tests = {}};
  for (const JsonObject& draft : objects(fields, "drafts")) {
    round.drafts.push_back(integer_in(draft, "token", {0, vocab_size - 1}));
  }
  for (const JsonObject& test : objects(fields, "tests")) {
    round.tests.push_back(
        {test.required_number("target_prob"), test.required_number("draft_prob")});
  }
  if (std::ssize(round.drafts) != round.spec_length || round.tests.size() > round.drafts.size()) {
    fail("{}: {} drafts and {} tests for a spec_length of {}", fields.name(), round.drafts.size(),
         round.tests.size(), round.spec_length);
  }
  return round;
}

GoldenRun read_run(const JsonObject& line, const LlamaConfig& config) {
  const JsonObject options = line.required_object("options");
  const Json* seed = options.find("seed");
  if (seed == nullptr) options.fail_missing("seed");
  if (!seed->is_number_unsigned()) options.fail_type("seed", "a whole number");
  GoldenRun run;
  run.id = golden_id(line);
  run.generation.prompt = read_tokens(line, "prompt_ids", config.vocab_size);
  run.generation.max_new_tokens = integer_in(options, "max_new_tokens", kNewTokens);
  for (const std::int32_t id : read_integers(line, "eos_ids")) run.generation.eos_ids.push_back(id);
  run.speculation.sampling = {.temperature = options.required_number("temperature"),
                              .top_k = options.required_integer("top_k"),
                              .top_p = options.required_number("top_p"),
                              .repetition_penalty = options.required_number("repetition_penalty")};
  run.speculation.draft_temperature = options.required_number("draft_temperature");
  try {
    check_speculation_options(run.speculation);
  } catch (const Error& error) {
    fail("{}: {}", options.name(), error.what());
  }
  run.seed = seed->get<std::uint64_t>();
  run.spec_length = integer_in(options, "spec_length", kSpecLengths);
  run.context_limit = integer_in(options, "context_limit", {1, config.max_seq_len});
  run.tokens = read_tokens(line, "tokens", config.vocab_size);
  check_golden_length(run.generation.prompt.size(),
                      static_cast<std::size_t>(run.generation.max_new_tokens), config, line.name());
  for (const JsonObject& round : objects(line, "rounds")) {
    run.rounds.push_back(read_round(round, config.vocab_size));
  }
  if (run.rounds.empty()) fail("{}: rounds is empty", line.name());
  return run;
}

}  // namespace

std::vector<GoldenRun> golden_runs(const std::filesystem::path& goldens,
                                   const LlamaConfig& config) {
  const auto path = goldens / "sampling.jsonl";
  return parse_golden_runs(read_golden_lines(path), path.string(), config);
}

std::vector<GoldenRun> parse_golden_runs(std::string_view text, const std::string& name,
                                         const LlamaConfig& config) {
  std::vector<GoldenRun> runs;
  for_golden_lines(text, name, kAllGoldens,
                   [&](const JsonObject& line) { runs.push_back(read_run(line, config)); });
  return runs;
}

}  // namespace specdec
