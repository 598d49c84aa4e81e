#include "stages/programs/run/generation_config.h"

#include <filesystem>

#include <fmt/ranges.h>

#include "common/base/error.h"
#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/base/streams.h"

namespace specdec {
namespace {

// The other fields of transformers' GenerationConfig that change a text. Null, false, an empty list
// and `neutral` change nothing.
struct OtherField {
  const char* name;
  double neutral = 0;
  bool of_sampling = false;  // counts only if do_sample is true
};

constexpr OtherField kOtherFields[] = {
    {"min_p", 0, true},
    {"top_h", 0, true},
    {"typical_p", 1, true},
    {"epsilon_cutoff", 0, true},
    {"eta_cutoff", 0, true},
    {"encoder_repetition_penalty", 1},
    {"no_repeat_ngram_size"},
    {"encoder_no_repeat_ngram_size"},
    {"exponential_decay_length_penalty"},
    {"sequence_bias"},
    {"suppress_tokens"},
    {"begin_suppress_tokens"},
    {"bad_words_ids"},
    {"force_words_ids"},
    {"constraints"},
    {"forced_bos_token_id", -1},
    {"forced_eos_token_id", -1},
    {"min_length"},
    {"min_new_tokens"},
    {"stop_strings"},
    {"guidance_scale", 1},
    {"watermarking_config"},
    {"token_healing"},
    {"penalty_alpha"},
    {"dola_layers"},
    {"num_beams", 1},
    {"num_beam_groups", 1},
};

bool is_neutral(const Json& value, const OtherField& field) {
  if (value.is_number()) return value.get<double>() == field.neutral;
  if (value.is_boolean()) return !value.get<bool>();
  return value.empty();
}

std::filesystem::path file_of(const RunOptions& options) {
  return std::filesystem::path(options.target) / "generation_config.json";
}

// The number, unless it is neutral.
template <typename Number>
std::optional<Number> unless(std::optional<Number> number, Number neutral) {
  return number == neutral ? std::nullopt : number;
}

void check_numbers(const GenerationAdvice& advice, const std::string& name) {
  try {
    check_sampling_options({.temperature = advice.temperature.value_or(0),
                            .top_k = advice.top_k.value_or(0),
                            .top_p = advice.top_p.value_or(1),
                            .repetition_penalty = advice.repetition_penalty.value_or(1)});
  } catch (const Error& error) {
    fail("{}: {}", name, error.what());
  }
}

// A number of the advice, and its option.
template <typename Number>
struct Pair {
  const char* name;
  const std::optional<Number>& advice;
  Number& option;
  bool given;  // on the command line

  bool differs() const { return advice && !given && *advice != option; }
};

// Calls use(pair) for each number.
void for_each_number(const GenerationAdvice& advice, RunOptions& options, const auto& use) {
  SamplingOptions& sampling = options.sampling;
  const GivenSampling& given = options.given_sampling;
  use(Pair<double>{"temperature", advice.temperature, sampling.temperature, given.temperature});
  use(Pair<int>{"top_k", advice.top_k, sampling.top_k, given.top_k});
  use(Pair<double>{"top_p", advice.top_p, sampling.top_p, given.top_p});
  use(Pair<double>{"repetition_penalty", advice.repetition_penalty, sampling.repetition_penalty,
                   given.repetition_penalty});
}

// "a", "a and b", "a, b and c".
std::string listed(const std::vector<std::string>& items) {
  const auto last = items.end() - 1;
  if (items.size() == 1) return *last;
  return fmt::format("{} and {}", fmt::join(items.begin(), last, ", "), *last);
}

}  // namespace

GenerationAdvice parse_generation_advice(std::string_view text, const std::string& name) {
  const Json root = parse_json(text, name);
  const JsonObject config(root, name);
  const bool samples = config.boolean("do_sample").value_or(false);
  GenerationAdvice advice;
  if (samples) {
    advice.temperature = unless(std::optional(config.number("temperature").value_or(1)), 0.0);
    advice.top_k = unless(config.integer("top_k"), 0);
    advice.top_p = unless(config.number("top_p"), 1.0);
  }
  advice.repetition_penalty = unless(config.number("repetition_penalty"), 1.0);
  check_numbers(advice, name);
  for (const OtherField& field : kOtherFields) {
    const Json* value = config.find(field.name);
    if (value == nullptr || (field.of_sampling && !samples) || is_neutral(*value, field)) continue;
    advice.others.push_back(fmt::format("{} {}", field.name, excerpt(*value)));
  }
  return advice;
}

void apply_generation_advice(RunOptions& options) {
  const std::filesystem::path file = file_of(options);
  const auto advice = parse_generation_advice(read_text_file(file), file.string());
  for_each_number(advice, options, [](const auto& pair) {
    if (pair.differs()) pair.option = *pair.advice;
  });
}

std::optional<std::string> advice_not_taken(const RunOptions& run) {
  const std::filesystem::path file = file_of(run);
  if (!std::filesystem::exists(file)) return std::nullopt;
  const auto advice = parse_generation_advice(read_text_file(file), file.string());
  std::vector<std::string> all, ours;
  RunOptions options = run;
  for_each_number(advice, options, [&](const auto& pair) {
    if (!pair.differs()) return;
    all.push_back(fmt::format("{} {}", pair.name, *pair.advice));
    ours.emplace_back(pair.name);
  });
  all.insert(all.end(), advice.others.begin(), advice.others.end());
  if (all.empty()) return std::nullopt;
  std::string line = fmt::format("{} recommends {}; not applied", file.string(), listed(all));
  if (ours.empty() || options.stage >= kFirstBeamStage) {
    line += ", since no option does that";
  } else {
    const bool lacks_it = options.stage < kFirstSamplingStage;
    line +=
        fmt::format(" ({}--generation-config applies {})",
                    lacks_it ? stage_name(kFirstSamplingStage) + " and later: " : "", listed(ours));
  }
  return line;
}

void say_advice_not_taken(const RunOptions& options, bool has_chats) {
  if (options.quiet || !(has_chats || options.generation_config)) return;
  std::optional<std::string> line;
  try {
    line = advice_not_taken(options);
  } catch (const Error& error) {  // the text is good all the same
    line = fmt::format("{}; what this file recommends is not applied", error.what());
  }
  if (line) say("{}: {}\n", stage_name(options.stage), *line);
}

}  // namespace specdec
