#pragma once
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json_value.h"
#include "common/checkpoint/checkpoint.h"
#include "common/llama.h"
#include "stages/programs/check/golden_text.h"
#include "stages/programs/check/tensor_log.h"
#include "stages/programs/run/options.h"

namespace specdec {

// A model under check, as a stage runs it. A stage leaves empty what it does not have.
struct CheckedModel {
  const Checkpoint* checkpoint = nullptr;
  // Every golden-named tensor of a forward pass over the tokens.
  std::function<TensorLog(std::span<const TokenId> tokens)> activations;
  // The logits [following.size(), vocab_size] that choose each of the following tokens, computed as
  // the stage decodes: row i follows the prompt and following[0 .. i - 1].
  std::function<std::vector<float>(std::span<const TokenId> prompt,
                                   std::span<const TokenId> following)>
      decode;
  // layers.{i}.k_rope and layers.{i}.v as the cache holds them after the tokens.
  std::function<TensorLog(std::span<const TokenId> tokens)> cache;
};

// The results of the checks, one line each. Prints each line as soon as it is known.
class CheckList {
 public:
  explicit CheckList(bool print = true) : print_(print) {}

  // `report`: a few lines for people, shown under a failed check.
  void add(bool passed, const std::string& name, const std::string& report = "");
  // problem: empty, or what is wrong.
  void check(const std::string& name, const std::string& problem) {
    add(problem.empty(), name, problem);
  }
  // The summary lists those of these files that the folder lacks as not checked.
  void note_missing(const std::filesystem::path& goldens,
                    std::initializer_list<std::string_view> files);
  int checked() const { return checked_; }
  int failed() const { return failed_; }
  int near_ties = 0;               // of all greedy steps; must be 0 unless is_rounded
  bool is_rounded = false;         // weights, or keys and values, are rounded
  int texts = 0, other_texts = 0;  // greedy texts, and those of them with a near-tie
  const std::string& failures() const { return failures_; }

  // Prints the summary. Returns the exit code of --check: 0, or 1 if a check failed.
  int finish() const;

 private:
  bool print_;
  int checked_ = 0, failed_ = 0;
  std::vector<std::string> missing_;
  std::string failures_;
};

// How much of the golden files is checked.
struct GoldenShare {
  int prompts = kAllGoldens;  // activations and steps
  int texts = kAllGoldens;    // lines of greedy.jsonl
};

// All of them; but few for a real model on the emulated device, unless SPECDEC_FULL is set.
GoldenShare golden_share(const RunOptions& options, const LlamaConfig& config);

struct GoldenCheckOptions {
  double least_tolerance = 0;  // above 0 where something is rounded
  GoldenShare share = {};
};

// The tolerance of every tensor for what is rounded, as a part of its norm; 0 if nothing is.
double rounding_tolerance(KvType kv_type, WeightFormat weights);

// Those of a stage's --check.
GoldenCheckOptions golden_check_options(const RunOptions& options, const LlamaConfig& config);

// Checks a model against a folder of golden files (golden/goldens/README.md): activations, 64
// greedy steps of each prompt, cache contents, greedy continuations. Throws Error if the files are
// missing or belong to another model.
void check_goldens(const std::filesystem::path& goldens, const CheckedModel& model, CheckList& list,
                   const GoldenCheckOptions& options = {});

// The greedy texts to check, as many as golden_share() says. Throws Error if they belong to another
// model, or are no texts.
std::vector<GoldenText> texts_to_check(const RunOptions& options, const Checkpoint& checkpoint);

// "" for equal texts, or which token differs.
std::string golden_difference(std::span<const TokenId> got, std::span<const TokenId> want);

// Throws Error if the files belong to a model of another shape.
void check_belongs(const std::filesystem::path& goldens, const Checkpoint& checkpoint);

// The engine as a CheckedModel: prefill, then one token per forward. REQUIRES: all arguments
// outlive it.
CheckedModel checked_engine(const Checkpoint& checkpoint, Llama& model, const KvCache& cache);

// The positions that a cache needs for the check. Throws Error.
int longest_golden(const std::filesystem::path& goldens, const LlamaConfig& config);

// The golden files of the embedded target, or those that --goldens names.
std::filesystem::path golden_directory(const std::string& option);

}  // namespace specdec
