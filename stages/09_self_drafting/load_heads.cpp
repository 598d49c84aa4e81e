#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <fmt/ranges.h>

#include "common/base/error.h"
#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/checkpoint/elements.h"
#include "common/checkpoint/safetensors.h"
#include "common/llama_model.h"
#include "stages/09_self_drafting/heads.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

// The tensors of a file of heads. It notes which of them were taken.
class HeadFile {
 public:
  explicit HeadFile(const fs::path& path) : file_(path) {}

  bool contains(const std::string& name) const { return file_.contains(name); }
  TensorView take(const std::string& name, const std::vector<std::int64_t>& shape) {
    if (!contains(name)) fail("{}: the tensor {} is missing", file_.name(), name);
    TensorView tensor = file_.tensor(name);
    if (tensor.shape != shape) {
      fail("{}: tensor {} has the shape [{}], not [{}]: these heads belong to another target",
           file_.name(), name, fmt::join(tensor.shape, ", "), fmt::join(shape, ", "));
    }
    if (!is_readable(tensor.dtype) || tensor.dtype == DType::kF64) {
      fail("{}: tensor {} is of type {}; supported are BF16, F16 and F32", file_.name(), name,
           dtype_name(tensor.dtype));
    }
    taken_.insert(name);
    return tensor;
  }
  // A tensor that is not used would make other heads of it.
  void refuse_leftovers() const {
    for (const TensorEntry& tensor : file_.header().tensors) {
      if (taken_.contains(tensor.name)) continue;
      fail("{}: tensor {} belongs to no heads that we can compute", file_.name(), tensor.name);
    }
  }

 private:
  SafetensorsFile file_;
  std::set<std::string, std::less<>> taken_;
};

int size_of(const JsonObject& config, const char* key) {
  constexpr int kMost = 1 << 20;
  const int number = config.required_integer(key);
  if (number < 1 || number > kMost) {
    fail("{}: {} is {}; it must be from 1 to {}", config.name(), key, number, kMost);
  }
  return number;
}

std::unique_ptr<Heads> load_blockwise(const JsonObject& config, HeadFile& file, int d_model,
                                      Backend& backend, int max_rows) {
  const int n = size_of(config, "num_heads"), f = size_of(config, "intermediate_size");
  const HostMatrix up = host_matrix(file.take("up.weight", {f, d_model}));
  const HostMatrix down = host_matrix(file.take("down.weight", {std::int64_t{n} * d_model, f}));
  file.refuse_leftovers();
  return std::make_unique<BlockwiseHeads>(backend, backend.load_matrix(std::span(&up, 1)),
                                          backend.load_matrix(std::span(&down, 1)), max_rows);
}

// How many heads there are, the file says: some published configurations give another number.
std::unique_ptr<Heads> load_medusa(const JsonObject& config, HeadFile& file, int d_model,
                                   Backend& backend, int max_rows) {
  if (const int layers = size_of(config, "medusa_num_layers"); layers != 1) {
    fail("{}: medusa_num_layers is {}; only 1 is supported", config.name(), layers);
  }
  if (file.contains("0.1.weight")) {
    fail("{}: these heads have projections of their own, which are not supported", config.name());
  }
  std::vector<HostMatrix> blocks;
  std::vector<float> biases;
  for (int i = 0; i == 0 || file.contains(fmt::format("{}.0.linear.weight", i)); ++i) {
    const std::string name = fmt::format("{}.0.linear.", i);
    blocks.push_back(host_matrix(file.take(name + "weight", {d_model, d_model})));
    const std::vector<float> bias = to_float32(file.take(name + "bias", {d_model}));
    biases.insert(biases.end(), bias.begin(), bias.end());
  }
  file.refuse_leftovers();
  return std::make_unique<MedusaHeads>(backend, backend.load_matrix(blocks), biases, max_rows);
}

}  // namespace

std::unique_ptr<Heads> load_heads(const fs::path& folder, int d_model, Backend& backend,
                                  int max_rows) {
  const fs::path path = folder / "config.json";
  const Json root = parse_json(read_text_file(path), path.string());
  const JsonObject config(root, path.string());
  if (config.has("hidden_size") && size_of(config, "hidden_size") != d_model) {
    fail("{}: hidden_size is {}, and the target's is {}", config.name(),
         size_of(config, "hidden_size"), d_model);
  }
  const bool medusa = config.has("medusa_num_layers");
  if (!medusa && config.string("model_type") != "blockwise") {
    fail("{}: neither Medusa heads, which have medusa_num_layers, nor blockwise ones",
         config.name());
  }
  HeadFile file(folder / "model.safetensors");
  return (medusa ? load_medusa : load_blockwise)(config, file, d_model, backend, max_rows);
}

}  // namespace specdec
