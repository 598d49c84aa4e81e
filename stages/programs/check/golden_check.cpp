#include "stages/programs/check/golden_check.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include <fmt/color.h>

#include "common/argmax.h"
#include "common/base/error.h"
#include "common/base/exit_code.h"
#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/base/streams.h"
#include "common/base/terminal.h"
#include "common/golden_folder.h"
#include "common/tokenizer/tokenizer.h"
#include "kernels/int_size.h"
#include "stages/programs/comparator/matrix.h"
#include "stages/programs/comparator/number_lists.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

// The token that a row of logits chooses; -1 if one of them is NaN.
TokenId choice_of(std::span<const float> row) {
  return std::ranges::any_of(row, [](float x) { return std::isnan(x); }) ? -1 : argmax(row);
}

// The manifest of a folder of golden files.
class Manifest {
 public:
  explicit Manifest(const fs::path& goldens)
      : path_(goldens / "manifest.json"),
        root_(parse_json(read_text_file(path_), path_.string())) {}

  // Short prompts first: all of their rows are stored, so they show the cause of a mistake best.
  std::vector<std::string> prompts(int at_most) const {
    const JsonObject all = fields().required_object("prompts");
    std::vector<std::pair<int, std::string>> prompts;
    for (const auto& [name, prompt] : root_.at("prompts").items()) {
      prompts.emplace_back(all.required_object(name).required_integer("tokens"), name);
    }
    if (prompts.empty()) fail("{}: prompts is empty", path_.string());
    std::ranges::sort(prompts);
    std::vector<std::string> names;
    for (const auto& [tokens, name] : prompts) {
      if (int_size(names) < at_most) names.push_back(name);
    }
    return names;
  }

  double logits_tolerance() const {
    return fields().required_object("tolerances").required_number("logits");
  }

 private:
  JsonObject fields() const { return {root_, path_.string()}; }

  fs::path path_;
  Json root_;
};

std::span<const float> row_of(std::span<const float> values, std::size_t row, std::size_t width) {
  return values.subspan(row * width, width);
}

// A tensor of golden steps. Throws Error where it has another shape or type.
TensorView golden_tensor(const SafetensorsFile& file, const std::string& name, DType dtype,
                         std::span<const std::int64_t> shape) {
  const TensorView tensor = file.tensor(name);
  if (tensor.dtype != dtype || !std::ranges::equal(tensor.shape, shape)) {
    fail("{}: {} must be of type {} and of shape [{}]", file.name(), name, dtype_name(dtype),
         fmt::join(shape, ", "));
  }
  return tensor;
}

// The logits in PROMPT.steps.safetensors: whole rows of some steps, and the largest logits and the
// norms of all steps.
struct StepNumbers {
  Matrix top, full;              // [steps, n], [full_steps, vocab_size]
  std::vector<double> norms;     // [steps]
  std::vector<TokenId> top_ids;  // [steps, n]
  std::vector<std::int32_t> full_steps;

  StepNumbers(const SafetensorsFile& file, std::int64_t steps, std::int64_t vocab_size) {
    const std::vector<std::int64_t> all_steps = file.tensor("top_logits").shape;
    const std::int64_t n = all_steps.size() == 2 ? all_steps[1] : 0;
    const std::int64_t of_top[] = {steps, n};
    top = to_matrix(golden_tensor(file, "top_logits", DType::kF32, of_top));
    norms = read_numbers(file, "norms");
    if (std::ssize(norms) != steps) fail("{}: norms must be {} numbers", file.name(), steps);
    const TensorView ids = golden_tensor(file, "top_ids", DType::kI32, of_top);
    top_ids.resize(ids.bytes.size() / sizeof(TokenId));
    std::ranges::copy(ids.bytes, std::as_writable_bytes(std::span(top_ids)).begin());
    if (file.contains("full_steps")) full_steps = read_integers(file, "full_steps");
    const std::int64_t of_full[] = {std::ssize(full_steps), vocab_size};
    if (!full_steps.empty()) {
      full = to_matrix(golden_tensor(file, "full_logits", DType::kF32, of_full));
    }
    const auto below = [](std::int64_t end) {
      return [end](std::int64_t i) { return i >= 0 && i < end; };
    };
    if (!std::ranges::all_of(top_ids, below(vocab_size)) ||
        !std::ranges::all_of(full_steps, below(steps))) {
      fail("{}: top_ids or full_steps point beyond {} tokens and {} steps", file.name(), vocab_size,
           steps);
    }
  }
};

// Checks golden greedy steps against the model's logits.
class StepCheck {
 public:
  StepCheck(const CheckedModel& model, double tolerance, CheckList& list)
      : model_(model), tolerance_(tolerance), list_(list) {
    const fs::path path = model.checkpoint->directory() / "tokenizer.json";
    if (fs::exists(path)) tokenizer_ = Tokenizer::load(path);
  }

  void prompt(const fs::path& path) {
    const SafetensorsFile file(path);
    const LlamaConfig& config = model_.checkpoint->config();
    const std::vector<TokenId> tokens = read_tokens(file, "token_ids", config.vocab_size);
    const std::vector<GreedyStep> steps = read_greedy_steps(file, config.vocab_size);
    check_golden_length(tokens.size(), steps.size(), config, file.name());
    const StepNumbers want(file, std::ssize(steps), config.vocab_size);
    const std::vector<float> logits = decode(tokens, steps);
    greedy(logits, steps, "greedy steps, prompt " + path.stem().stem().string());
    numbers(want, logits, steps.size(),
            "logits of the steps, prompt " + path.stem().stem().string());
  }

  void text(const GoldenText& text) {
    const int near_ties = list_.near_ties;
    greedy(decode(text.prompt, text.steps), text.steps, "greedy text " + text.id,
           has_other_ids(text) ? "; the tokenizer gives other ids for the prompt" : "");
    ++list_.texts;
    list_.other_texts += list_.near_ties > near_ties;
  }

 private:
  // Whether our tokenizer gives other ids for the prompt's text than the independent tokenizer that
  // made the golden ids.
  bool has_other_ids(const GoldenText& text) const {
    if (!tokenizer_ || text.prompt_text.empty()) return false;
    return tokenizer_->encode(text.prompt_text, false) != text.prompt;
  }

  std::vector<float> decode(std::span<const TokenId> prompt, std::span<const GreedyStep> steps) {
    std::vector<TokenId> following;
    for (const GreedyStep& step : steps) following.push_back(step.token);
    return model_.decode(prompt, following);
  }

  // problem: another problem, or empty.
  void greedy(std::span<const float> logits, std::span<const GreedyStep> steps,
              const std::string& name, const std::string& problem = "") {
    std::vector<TokenId> got;
    const std::size_t width = logits.size() / steps.size();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      got.push_back(choice_of(row_of(logits, i, width)));
    }
    const GreedyComparison result = compare_greedy(got, steps, tolerance_);
    list_.near_ties += int_size(result.near_ties);
    list_.add(result.agrees() && problem.empty(), fmt::format("{}: {} tokens", name, steps.size()),
              result.report + problem);
  }

  void numbers(const StepNumbers& want, std::span<const float> logits, std::size_t n_steps,
               const std::string& name) {
    const std::size_t width = logits.size() / n_steps;
    double worst = 0;
    for (std::size_t s = 0; s < n_steps; ++s) {
      std::vector<double> got;
      for (std::size_t i = 0; i < want.top.cols; ++i) {
        const TokenId id = want.top_ids[s * want.top.cols + i];
        got.push_back(row_of(logits, s, width)[id]);
      }
      worst = larger(worst, error(got, want.top.row(s)));
      worst = larger(worst, std::abs(norm(row_of(logits, s, width)) / want.norms[s] - 1));
    }
    for (std::size_t r = 0; r < want.full_steps.size(); ++r) {
      const auto row = row_of(logits, want.full_steps[r], width);
      worst = larger(worst, error(std::vector<double>(row.begin(), row.end()), want.full.row(r)));
    }
    list_.add(within(worst, tolerance_), name,
              fmt::format("the worst row is off by {:.2e}, tolerance {:.1e}", worst, tolerance_));
  }

  // NaN is larger than everything.
  static double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

  static double norm(const auto& numbers) {
    double squares = 0;
    for (const double number : numbers) squares += number * number;
    return std::sqrt(squares);
  }

  static double error(std::span<const double> got, std::span<const double> want) {
    std::vector<double> difference(want.size());
    for (std::size_t i = 0; i < want.size(); ++i) difference[i] = got[i] - want[i];
    return norm(difference) == 0 ? 0 : norm(difference) / norm(want);
  }

  const CheckedModel& model_;
  double tolerance_;
  CheckList& list_;
  std::optional<Tokenizer> tokenizer_;
};

// A golden file of a prompt that the model can compute.
GoldenFile open_golden(const fs::path& path, const CheckedModel& model) {
  GoldenFile golden(path);
  check_golden_length(golden.tokens().size(), 0, model.checkpoint->config(), golden.name());
  return golden;
}

// Compares the tensors that the model computes for the tokens of a golden file.
using Record = std::function<TensorLog(std::span<const TokenId> tokens)>;
ComparisonResult check_tensors(const GoldenFile& golden, const CheckedModel& model,
                               const Record& record, double least_tolerance) {
  const TensorLog log = record(golden.tokens());
  return compare(golden, log.lookup(),
                 {.checkpoint = model.checkpoint, .least_tolerance = least_tolerance});
}

std::string right(const ComparisonResult& result) {
  return fmt::format("{} tensor{} right", result.agreed, result.agreed == 1 ? "" : "s");
}

}  // namespace

void CheckList::add(bool passed, const std::string& name, const std::string& report) {
  ++checked_;
  if (!passed) {
    ++failed_;
    failures_ += name + "\n" + report + "\n";
  }
  if (!print_) return;
  const auto colour = passed ? fmt::terminal_color::green : fmt::terminal_color::red;
  const std::string word = passed ? "ok  " : "FAIL";
  fmt::print("{} {}\n", use_colour(stdout) ? fmt::format(fmt::fg(colour), "{}", word) : word, name);
  if (!passed) fmt::print("{}\n", report);
  flush_stdout();
}

void CheckList::note_missing(const fs::path& goldens,
                             std::initializer_list<std::string_view> files) {
  for (const std::string_view file : files) {
    if (!fs::exists(goldens / file)) missing_.push_back((goldens / file).string());
  }
}

int CheckList::finish() const {
  if (print_) {
    fmt::print("{} of {} checks passed, {} near-ties\n", checked_ - failed_, checked_, near_ties);
    for (const std::string& file : missing_) fmt::print("NOT CHECKED: there is no {}\n", file);
    if (is_rounded && texts > 0) {
      fmt::print("{} of {} greedy texts differ from those without rounding\n", other_texts, texts);
    }
  }
  const bool ties_pass = is_rounded || near_ties == 0;
  return failed_ == 0 && ties_pass && checked_ > 0 ? kGood : kCheckFailed;
}

GoldenShare golden_share(const RunOptions& options, const LlamaConfig& config) {
  constexpr int kLargestSmall = 4096;  // the embedded models have 1,152 and 256
  const bool is_large = config.n_layers * config.d_model > kLargestSmall;
  const bool is_slow = options.device == DeviceChoice::kEmulated && is_large &&
                       std::getenv("SPECDEC_FULL") == nullptr;
  return is_slow ? GoldenShare{.prompts = 2, .texts = 1} : GoldenShare{};
}

double rounding_tolerance(KvType kv_type, WeightFormat weights) {
  // In the embedded target, int8 weights move a tensor by up to 0.083. Those of four bits move
  // attention by up to 0.87, where it is small, and logits by up to 0.44. bf16 has 8 bits: a number
  // is off by up to 2^-8, or 4e-3, of itself, and so are the sums in layer after layer.
  if (weights == WeightFormat::kQ4) return 0.9;
  if (weights == WeightFormat::kInt8) return 0.1;
  return kv_type == KvType::kF32 ? 0 : 1e-2;
}

GoldenCheckOptions golden_check_options(const RunOptions& options, const LlamaConfig& config) {
  return {.least_tolerance = rounding_tolerance(options.kv_type, options.target_weights),
          .share = golden_share(options, config)};
}

void check_belongs(const fs::path& goldens, const Checkpoint& checkpoint) {
  if (checkpoint.has_groups()) {
    fail(
        "--check: {} keeps the groups of a GGUF file, and golden files are of float weights; check "
        "the model of make real without WEIGHTS=kept",
        checkpoint.directory().string());
  }
  const GoldenFile golden(goldens / (Manifest(goldens).prompts(1)[0] + ".safetensors"));
  if (!golden.shape().is_of(checkpoint.config())) {
    fail(
        "{} is not the model that {} belongs to: make goldens for it (golden/goldens/README.md) "
        "and name them with --goldens",
        checkpoint.directory().string(), golden.name());
  }
}

std::vector<GoldenText> texts_to_check(const RunOptions& options, const Checkpoint& checkpoint) {
  const fs::path goldens = golden_directory(options.goldens);
  const LlamaConfig& config = checkpoint.config();
  check_belongs(goldens, checkpoint);
  return golden_texts(goldens, config, golden_share(options, config).texts);
}

std::string golden_difference(std::span<const TokenId> got, std::span<const TokenId> want) {
  if (std::ranges::equal(got, want)) return "";
  const auto differ = std::ranges::mismatch(got, want);
  return fmt::format("token {} differs from the golden one", differ.in1 - got.begin());
}

void check_goldens(const fs::path& goldens, const CheckedModel& model, CheckList& list,
                   const GoldenCheckOptions& options) {
  const Manifest manifest(goldens);
  const auto names = manifest.prompts(options.share.prompts);
  check_belongs(goldens, *model.checkpoint);
  const double least = options.least_tolerance;
  list.is_rounded = least > 0;
  for (const std::string& name : names) {
    const GoldenFile golden = open_golden(goldens / (name + ".safetensors"), model);
    const ComparisonResult result = check_tensors(golden, model, model.activations, least);
    list.add(result.agrees(), fmt::format("activations, prompt {}: {}", name, right(result)),
             result.report);
  }
  if (model.cache) {
    const GoldenFile golden = open_golden(goldens / "short.cache.safetensors", model);
    const ComparisonResult result = check_tensors(golden, model, model.cache, least);
    list.add(result.agrees(),
             fmt::format("cache after {} tokens: {}", golden.tokens().size(), right(result)),
             result.report);
  }
  StepCheck steps(model, std::max(manifest.logits_tolerance(), least), list);
  for (const std::string& name : names) steps.prompt(goldens / (name + ".steps.safetensors"));
  list.note_missing(goldens, {"greedy.jsonl"});
  const auto texts = golden_texts(goldens, model.checkpoint->config(), options.share.texts);
  for (const GoldenText& text : texts) steps.text(text);
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
    TensorLog log = record_cache(cache, sequence);
    model.release(sequence);
    return log;
  };
  return checked;
}

int longest_golden(const fs::path& goldens, const LlamaConfig& config) {
  std::size_t longest = 0;
  for (const std::string& name : Manifest(goldens).prompts(kAllGoldens)) {
    const SafetensorsFile file(goldens / (name + ".steps.safetensors"));
    longest = std::max(
        longest, read_integers(file, "token_ids").size() + read_integers(file, "tokens").size());
  }
  for (const GoldenText& text : golden_texts(goldens, config)) {
    longest = std::max(longest, text.prompt.size() + text.steps.size());
  }
  return std::min<std::size_t>(longest, config.max_seq_len);
}

fs::path golden_directory(const std::string& option) {
  return option.empty() ? golden_folder() / "goldens" / "target" : fs::path(option);
}

}  // namespace specdec
