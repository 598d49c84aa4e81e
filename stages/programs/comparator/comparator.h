#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "stages/programs/comparator/golden_file.h"

namespace specdec {

// The tensor of that name which the program computed; nullopt when it has none.
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

  // Of the first tensor that is not as it should be; empty and -1 where it does not apply.
  std::string tensor;
  int layer = -1;
  int token = -1;  // the first one out of tolerance, counted from the start of the prompt
  int index = -1;  // the first element of its row that is; head and dim where a row has heads
  int head = -1;
  int dim = -1;
  double got = 0;
  double want = 0;
  double error = 0;  // ||got - want|| / ||want|| over the tensor
  double tolerance = 0;
  std::string cause;  // the likeliest one; "" when no known mistake gives these values

  bool agrees() const { return status == ComparisonStatus::kAgrees; }
};

struct ComparisonOptions {
  const Checkpoint* checkpoint = nullptr;  // with it, far more causes are recognised
  bool every_tensor = true;    // false: those that the program lacks are reported as not checked;
                               // the last golden tensor (logits) must be there all the same
  double least_tolerance = 0;  // for every tensor; 1e-2 where activations are bf16
};

// Walks the golden tensors in the order in which data flows, and stops at the first one that the
// program has not, or has in another shape, or with an error above its tolerance. A NaN anywhere
// is such an error.
ComparisonResult compare(const GoldenFile& golden, const TensorLookup& computed,
                         const ComparisonOptions& options = {});

}  // namespace specdec
