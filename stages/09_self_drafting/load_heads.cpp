#include <string>
#include <utility>

#include "common/base/error.h"
#include "common/checkpoint/elements.h"
#include "common/inflation/inflated_weights.h"
#include "common/llama_model.h"
#include "stages/09_self_drafting/head_file.h"
#include "stages/09_self_drafting/heads.h"

namespace specdec {
namespace {

namespace fs = std::filesystem;

// The matrices and biases of heads, for a target of this width.
class HeadParameters {
 public:
  HeadParameters(HeadFile& file, int d_model, int width)
      : file_(file), d_model_(d_model), width_(width) {}

  int d_model() const { return d_model_; }
  int width() const { return width_; }
  // As many numbers in a row of another size as the inflated target has for one of its own.
  int inflated(int size) const { return int(std::int64_t{size} * width_ / d_model_); }
  // `count` matrices of this shape, one below the other.
  void add_matrices(const std::string& name, int count, int rows, int columns) {
    const TensorView all = file_.take(name, {std::int64_t{count} * rows, columns});
    const std::size_t bytes = all.bytes.size() / count;
    for (int i = 0; i < count; ++i) {
      const TensorView one{all.dtype, {rows, columns}, all.bytes.subspan(bytes * i, bytes)};
      add(one);
    }
  }
  void add_bias(const std::string& name) {
    const std::vector<float> bias = to_float32(file_.take(name, {d_model_}));
    biases_.insert(biases_.end(), bias.begin(), bias.end());
    biases_.resize(biases_.size() + width_ - d_model_);  // with zeros
  }
  // The matrices so far as one, which begins anew.
  std::unique_ptr<const WeightMatrix> load(Backend& backend) {
    auto matrix = backend.load_matrix(matrices_);
    matrices_.clear();
    return matrix;
  }
  // A block of a Medusa head, or one of each head, side by side: the matrices and biases so far.
  std::unique_ptr<Heads> load_blocks(Backend& backend, int max_rows) {
    return std::make_unique<MedusaHeads>(backend, load(backend), std::exchange(biases_, {}),
                                         max_rows);
  }

 private:
  void add(const TensorView& matrix) {
    if (width_ == d_model_) return matrices_.push_back(host_matrix(matrix));
    made_.push_back(inflated_matrix(matrix, inflated(int(matrix.shape[0])),
                                    inflated(int(matrix.shape[1])), int_size(made_)));
    matrices_.push_back(host_matrix(made_.back().view));
  }

  HeadFile& file_;
  int d_model_, width_;
  std::vector<Weight> made_;
  std::vector<HostMatrix> matrices_;
  std::vector<float> biases_;
};

std::unique_ptr<Heads> load_blockwise(HeadFile& file, HeadParameters& parameters, Backend& backend,
                                      int max_rows) {
  const int E = parameters.d_model();
  const int n = file.size_of("num_heads"), f = file.size_of("intermediate_size");
  parameters.add_matrices("up.weight", 1, f, E);
  auto up = parameters.load(backend);
  parameters.add_matrices("down.weight", n, E, f);
  return std::make_unique<BlockwiseHeads>(backend, std::move(up), parameters.load(backend),
                                          max_rows);
}

// How many heads there are, the file says: some published configurations give another number.
int count_medusa(const HeadFile& file) {
  int count = 1;
  while (file.contains(fmt::format("{}.0.linear.weight", count))) ++count;
  return count;
}

std::unique_ptr<Heads> load_medusa(HeadFile& file, HeadParameters& parameters, Backend& backend,
                                   int max_rows) {
  const int E = parameters.d_model(), layers = file.size_of("medusa_num_layers");
  const int heads = count_medusa(file);
  const auto add = [&](int head, int layer) {
    const std::string name = fmt::format("{}.{}.linear.", head, layer);
    parameters.add_matrices(name + "weight", 1, E, E);
    parameters.add_bias(name + "bias");
  };
  for (int head = 0; head < heads; ++head) add(head, 0);
  auto first = parameters.load_blocks(backend, max_rows);
  if (layers == 1) return first;
  DeeperHeads::Blocks further;
  for (int i = heads; i < heads * layers; ++i) {
    add(i % heads, i / heads);
    further.push_back(parameters.load_blocks(backend, max_rows));
  }
  return std::make_unique<DeeperHeads>(backend, std::move(first), std::move(further), max_rows);
}

// Published Medusa heads have projections of their own, each after its blocks. All others share
// one.
std::vector<DraftHead> load_says(HeadFile& file, int count, const WeightSource& target,
                                 const LlamaConfig& runs, Backend& backend) {
  std::vector<DraftHead> says;
  const int layers = file.config().integer("medusa_num_layers").value_or(0);
  const bool own = layers > 0 && file.contains(fmt::format("0.{}.weight", layers));
  for (int i = 0; i < (own ? count : 1); ++i) {
    const std::string name = own ? fmt::format("{}.{}.weight", i, layers) : "lm_head.weight";
    if (own && !file.contains(name)) fail("{}: the tensor {} is missing", file.name(), name);
    says.push_back(load_draft_head(file, name, target, runs, backend));
  }
  return says;
}

}  // namespace

LoadedHeads load_heads(const fs::path& folder, const WeightSource& target, const LlamaConfig& runs,
                       Backend& backend, int max_rows) {
  HeadFile file(folder, target.config().d_model);
  const bool medusa = file.config().has("medusa_num_layers");
  if (!medusa && file.config().string("model_type") != "blockwise") {
    fail("{}: neither Medusa heads, which have medusa_num_layers, nor blockwise ones",
         file.config().name());
  }
  HeadParameters parameters(file, target.config().d_model, runs.d_model);
  LoadedHeads loaded;
  loaded.heads = (medusa ? load_medusa : load_blockwise)(file, parameters, backend, max_rows);
  loaded.says = load_says(file, loaded.heads->count(), target, runs, backend);
  file.refuse_leftovers();
  return loaded;
}

}  // namespace specdec
