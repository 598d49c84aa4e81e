#include "stages/programs/check/golden_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/color.h>

#include "common/base/error.h"
#include "common/base/exit_code.h"
#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/base/terminal.h"
#include "common/embedded_models.h"
#include "stages/programs/comparator/greedy_steps.h"
#include "stages/programs/comparator/matrix.h"
#include "stages/programs/comparator/number_lists.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

// The largest logit's index, the lowest among equals; -1 for a row with a NaN.
TokenId argmax(std::span<const float> row) {
  TokenId best = 0;
  for (std::size_t i = 0; i < row.size(); i++) {
    if (std::isnan(row[i])) return -1;
    if (row[i] > row[static_cast<std::size_t>(best)]) best = static_cast<TokenId>(i);
  }
  return best;
}

Json read_manifest(const fs::path& goldens) {
  const fs::path path = goldens / "manifest.json";
  return parse_json(read_text_file(path), path.string());
}

// Short prompts first: all of their rows are stored, so a mistake's cause is best told there.
std::vector<std::string> prompt_names(const Json& manifest, int at_most) {
  std::vector<std::pair<int, std::string>> prompts;
  for (const auto& [name, prompt] : manifest.at("prompts").items()) {
    prompts.emplace_back(prompt.at("tokens").get<int>(), name);
  }
  std::ranges::sort(prompts);
  std::vector<std::string> names;
  for (const auto& [tokens, name] : prompts) {
    if (static_cast<int>(names.size()) < at_most) names.push_back(name);
  }
  return names;
}

std::span<const float> row_of(std::span<const float> values, std::size_t row, std::size_t width) {
  return values.subspan(row * width, width);
}

// All elements of an I32 tensor.
std::vector<TokenId> read_ids(const TensorView& tensor) {
  if (tensor.dtype != DType::kI32) fail("token ids of type {}, not I32", dtype_name(tensor.dtype));
  std::vector<TokenId> ids(tensor.bytes.size() / sizeof(TokenId));
  std::memcpy(ids.data(), tensor.bytes.data(), tensor.bytes.size());
  return ids;
}

// Greedy steps against the logits that the model decided from.
class StepCheck {
 public:
  StepCheck(const CheckedModel& model, double tolerance, CheckList& list)
      : model_(model), tolerance_(tolerance), list_(list) {}

  void prompt(const fs::path& path) {
    const SafetensorsFile file(path);
    const std::vector<TokenId> tokens = read_integers(file, "token_ids");
    const std::vector<GreedyStep> steps = read_greedy_steps(file);
    const std::vector<float> logits = decode(tokens, steps);
    greedy(logits, steps, "greedy steps, prompt " + path.stem().stem().string());
    numbers(file, logits, steps.size(),
            "logits of the steps, prompt " + path.stem().stem().string());
  }

  void line(const JsonObject& json, const std::string& name) {
    const std::vector<GreedyStep> steps = read_greedy_steps(json);
    greedy(decode(read_integers(json, "prompt_ids"), steps), steps, "greedy text " + name);
  }

 private:
  std::vector<float> decode(std::span<const TokenId> prompt, std::span<const GreedyStep> steps) {
    std::vector<TokenId> following;
    for (const GreedyStep& step : steps) following.push_back(step.token);
    return model_.decode(prompt, following);
  }

  void greedy(std::span<const float> logits, std::span<const GreedyStep> steps,
              const std::string& name) {
    std::vector<TokenId> got;
    const std::size_t width = logits.size() / steps.size();
    for (std::size_t i = 0; i < steps.size(); i++) got.push_back(argmax(row_of(logits, i, width)));
    const GreedyComparison result = compare_greedy(got, steps, tolerance_);
    list_.near_ties += static_cast<int>(result.near_ties.size());
    list_.add(result.agrees(), fmt::format("{}: {} tokens", name, steps.size()), result.report);
  }

  // The whole rows of full_logits, and the 16 largest logits of every step.
  void numbers(const SafetensorsFile& file, std::span<const float> logits, std::size_t n_steps,
               const std::string& name) {
    const std::size_t width = logits.size() / n_steps;
    const Matrix top = to_matrix(file.tensor("top_logits"));    // [steps, 16]
    const Matrix full = to_matrix(file.tensor("full_logits"));  // [full_steps, vocab_size]
    const std::vector<TokenId> ids = read_ids(file.tensor("top_ids"));
    const std::vector<TokenId> full_steps = read_integers(file, "full_steps");
    double worst = 0;
    for (std::size_t s = 0; s < n_steps; s++) {
      std::vector<double> got;
      for (std::size_t i = 0; i < top.cols; i++) {
        got.push_back(row_of(logits, s, width)[static_cast<std::size_t>(ids[s * top.cols + i])]);
      }
      worst = larger(worst, error(got, top.row(s)));
    }
    for (std::size_t r = 0; r < full_steps.size(); r++) {
      const auto row = row_of(logits, static_cast<std::size_t>(full_steps[r]), width);
      worst = larger(worst, error(std::vector<double>(row.begin(), row.end()), full.row(r)));
    }
    list_.add(within(worst, tolerance_), name,
              fmt::format("the worst row is off by {:.2e}, tolerance {:.1e}", worst, tolerance_));
  }

  // NaN is larger than everything.
  static double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

  static double error(std::span<const double> got, std::span<const double> want) {
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < want.size(); i++) {
      difference += (got[i] - want[i]) * (got[i] - want[i]);
      norm += want[i] * want[i];
    }
    return difference == 0 ? 0 : std::sqrt(difference / norm);
  }

  const CheckedModel& model_;
  double tolerance_;
  CheckList& list_;
};

void check_activations(const fs::path& path, const CheckedModel& model, CheckList& list) {
  const GoldenFile golden(path);
  const TensorLog log = model.activations(golden.tokens());
  const ComparisonResult result = compare(golden, log.lookup(), {.checkpoint = model.checkpoint});
  list.add(result.agrees(),
           fmt::format("activations, prompt {}: {} tensors", path.stem().string(), result.agreed),
           result.report);
}

void check_cache(const fs::path& path, const CheckedModel& model, CheckList& list) {
  const GoldenFile golden(path);
  const TensorLog log = model.cache(golden.tokens());
  const ComparisonResult result = compare(golden, log.lookup(), {.checkpoint = model.checkpoint});
  list.add(result.agrees(),
           fmt::format("cache after {} tokens: {} tensors", golden.tokens().size(), result.agreed),
           result.report);
}

}  // namespace

void CheckList::add(bool passed, const std::string& name, const std::string& report) {
  checked_++;
  if (!passed) {
    failed_++;
    failures_ += name + "\n" + report + "\n";
  }
  if (!print_) return;
  const auto colour = passed ? fmt::terminal_color::green : fmt::terminal_color::red;
  const std::string word = passed ? "ok  " : "FAIL";
  fmt::print("{} {}\n", use_colour(stdout) ? fmt::format(fmt::fg(colour), "{}", word) : word, name);
  if (!passed) fmt::print("{}\n", report);
  std::fflush(stdout);
}

int CheckList::finish() const {
  if (print_) {
    fmt::print("{} of {} checks passed, {} near-ties\n", checked_ - failed_, checked_, near_ties);
  }
  return failed_ == 0 && near_ties == 0 && checked_ > 0 ? kGood : kCheckFailed;
}

std::vector<Json> golden_lines(const fs::path& path, int at_most) {
  std::vector<Json> lines;
  if (!fs::exists(path)) return lines;
  const std::string text = read_text_file(path);
  for (std::size_t start = 0; start < text.size() && std::ssize(lines) < at_most;) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    lines.push_back(parse_json(std::string_view(text).substr(start, end - start),
                               fmt::format("{}:{}", path.string(), lines.size() + 1)));
    start = end + 1;
  }
  return lines;
}

void check_belongs(const fs::path& goldens, const Checkpoint& checkpoint) {
  const auto names = prompt_names(read_manifest(goldens), 1);
  const GoldenFile golden(goldens / (names.at(0) + ".safetensors"));
  const GoldenShape& shape = golden.shape();
  const LlamaConfig& config = checkpoint.config();
  if (shape.d_model != config.d_model || shape.n_layers != config.n_layers ||
      shape.vocab_size != config.vocab_size) {
    fail(
        "{} is not the model that {} belongs to: make goldens for it (golden/goldens/README.md) "
        "and name them with --goldens",
        checkpoint.directory().string(), golden.name());
  }
}

void check_goldens(const fs::path& goldens, const CheckedModel& model, CheckList& list,
                   const GoldenCheckOptions& options) {
  const Json manifest = read_manifest(goldens);
  const double tolerance = manifest.at("tolerances").at("logits").get<double>();
  const auto names = prompt_names(manifest, options.prompts);
  check_belongs(goldens, *model.checkpoint);
  for (const std::string& name : names) {
    check_activations(goldens / (name + ".safetensors"), model, list);
  }
  if (model.cache) check_cache(goldens / "short.cache.safetensors", model, list);
  StepCheck steps(model, tolerance, list);
  for (const std::string& name : names) steps.prompt(goldens / (name + ".steps.safetensors"));
  int number = 0;
  for (const Json& line : golden_lines(goldens / "greedy.jsonl", options.greedy_lines)) {
    const JsonObject object(line, fmt::format("greedy.jsonl:{}", ++number));
    steps.line(object, object.string("id").value_or(std::to_string(number)));
  }
}

CheckedModel checked_engine(const Checkpoint& checkpoint, Llama& model, const KvCache& cache) {
  CheckedModel checked;
  checked.checkpoint = &checkpoint;
  checked.activations = [&model](std::span<const TokenId> tokens) {
    return record_forward(model, tokens);
  };
  checked.decode = [&model](std::span<const TokenId> prompt, std::span<const TokenId> following) {
    const LogitsBuffer row(model, 1);
    std::vector<float> logits;
    const SequenceId sequence = model.create();
    if (prompt.size() > 1) model.forward(Segment{sequence, prompt.first(prompt.size() - 1), 0}, {});
    TokenId pending = prompt.back();
    for (const TokenId next : following) {
      model.forward(Segment{sequence, std::span(&pending, 1), 1}, row.rows(0, 1));
      const std::vector<float> values = to_host(model.backend(), row.rows(0, 1));
      logits.insert(logits.end(), values.begin(), values.end());
      pending = next;
    }
    model.release(sequence);
    return logits;
  };
  checked.cache = [&model, &cache](std::span<const TokenId> tokens) {
    const SequenceId sequence = model.create();
    model.forward(Segment{sequence, tokens, 0}, {});
    TensorLog log = record_cache(model.backend(), cache, sequence);
    model.release(sequence);
    return log;
  };
  return checked;
}

int longest_golden(const fs::path& goldens) {
  const Json manifest = read_manifest(goldens);
  std::size_t longest = 0;
  for (const std::string& name : prompt_names(manifest, 1 << 30)) {
    const SafetensorsFile file(goldens / (name + ".steps.safetensors"));
    longest = std::max(
        longest, read_integers(file, "token_ids").size() + read_integers(file, "tokens").size());
  }
  for (const Json& line : golden_lines(goldens / "greedy.jsonl")) {
    longest = std::max(longest, line.at("prompt_ids").size() + line.at("tokens").size());
  }
  return static_cast<int>(longest);
}

fs::path golden_directory(const std::string& option) {
  return option.empty() ? embedded_target().parent_path().parent_path() / "goldens" / "target"
                        : fs::path(option);
}

}  // namespace specdec
