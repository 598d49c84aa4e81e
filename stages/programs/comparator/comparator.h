#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "stages/programs/comparator/golden_file.h"

namespace specdec {

// The program's tensor of that name; nullopt if it has none.
using TensorLookup = std::function<std::optional<TensorView>(const std::string& name)>;

// All tensors of a dump.
TensorLookup lookup_in(const SafetensorsFile& dump);  // `dump` must outlive it

// A tensor in memory. values: [rows, width], must outlive the view.
TensorView float_tensor(std::span<const float> values, std::int64_t rows, std::int64_t width);

enum class ComparisonStatus { kAgrees, kDiffers, kMissing, kWrongShape, kWrongType };

struct ComparisonResult {
  ComparisonStatus status = ComparisonStatus::kAgrees;
  std::string report;  // a few lines for people; no newline at the end

  int agreed = 0;                        // tensors compared and found within tolerance
  std::vector<std::string> not_checked;  // golden tensors that the program does not have

  // The first tensor that is wrong. Empty and -1 where a field does not apply.
  std::string tensor;
  int layer = -1;
  int token = -1;  // the first token out of tolerance, counted from the start of the prompt
  int index = -1;  // its first element out of tolerance; also head and dim if a row has heads
  int head = -1;
  int dim = -1;
  double got = 0;
  double want = 0;
  double error = 0;  // ||got - want|| / ||want|| over the tensor
  double tolerance = 0;
  std::string cause;  // the likeliest cause; "" if no known mistake gives these values

  bool agrees() const { return status == ComparisonStatus::kAgrees; }
};

struct ComparisonOptions {
  const Checkpoint* checkpoint = nullptr;  // with it, far more causes are recognised
  // False: tensors that the program lacks are reported as not checked. The last golden tensor
  // (logits) is always required.
  bool every_tensor = true;
  double least_tolerance = 0;  // for every tensor; 1e-2 if activations are bf16
};

// Walks through the golden tensors in the order of the data flow. Stops at the first one that the
// program lacks, or that has another shape, or an error above its tolerance. Any NaN is such an
// error.
ComparisonResult compare(const GoldenFile& golden, const TensorLookup& computed,
                         const ComparisonOptions& options = {});

}  // namespace specdec
