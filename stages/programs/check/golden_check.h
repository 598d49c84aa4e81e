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

// A model under check, as a stage runs it. What a stage does not have is left empty.
struct CheckedModel {
  const Checkpoint* checkpoint = nullptr;
  // Every golden-named tensor of a forward pass over the tokens.
  std::function<TensorLog(std::span<const TokenId> tokens)> activations;
  // The logits [following.size(), vocab_size] from which each of the following tokens is chosen,
  // computed as the stage decodes: row i after the prompt and following[0 .. i - 1].
  std::function<std::vector<float>(std::span<const TokenId> prompt,
                                   std::span<const TokenId> following)>
      decode;
  // layers.{i}.k_rope and layers.{i}.v as the cache holds them after the tokens.
  std::function<TensorLog(std::span<const TokenId> tokens)> cache;
};

// What was checked, line by line, and how it went. Prints each line when it is known.
class CheckList {
 public:
  explicit CheckList(bool print = true) : print_(print) {}

  // `report`: a few lines for people, shown under a failed check.
  void add(bool passed, const std::string& name, const std::string& report = "");
  // The summary says which of these files the folder lacks: what they hold is not checked.
  void note_missing(const std::filesystem::path& goldens,
                    std::initializer_list<std::string_view> files);
  int checked() const { return checked_; }
  int failed() const { return failed_; }
  int near_ties = 0;               // of all greedy steps; the goldens of the CPU need 0, unless:
  bool is_rounded = false;         // keys and values are
  int texts = 0, other_texts = 0;  // greedy ones, and those of them with a near-tie
  const std::string& failures() const { return failures_; }

  // Prints the summary. What --check returns: 0, or 1 where a check failed.
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

// All of it, but little for a real model on the emulated device, unless SPECDEC_FULL is set.
GoldenShare golden_share(const RunOptions& options, const LlamaConfig& config);

struct GoldenCheckOptions {
  KvType kv_type = KvType::kF32;  // of the model's cache
  GoldenShare share = {};
};

// Of every tensor, where keys and values are rounded to 8 bits: each is off by up to 2^-9, 2e-3, of
// itself, and so are the sums of layer after layer.
inline constexpr double kRoundedTolerance = 1e-2;

// Holds a model against a folder of golden files (golden/goldens/README.md): activations, 64 greedy
// steps of each prompt, cache contents, greedy continuations. Throws Error where the files are
// missing or belong to another model.
void check_goldens(const std::filesystem::path& goldens, const CheckedModel& model, CheckList& list,
                   const GoldenCheckOptions& options = {});

// Throws Error where the files belong to another model: they say by their shape which they mean.
void check_belongs(const std::filesystem::path& goldens, const Checkpoint& checkpoint);

// The engine as a CheckedModel: prefill, then one token a forward. REQUIRES: both outlive it.
CheckedModel checked_engine(const Checkpoint& checkpoint, Llama& model, const KvCache& cache);

// Positions that a cache needs for the check. Throws Error.
int longest_golden(const std::filesystem::path& goldens, const LlamaConfig& config);

// The golden files of the embedded target, or those that --goldens names.
std::filesystem::path golden_directory(const std::string& option);

}  // namespace specdec
