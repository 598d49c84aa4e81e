#include "stages/09_self_drafting/feature_layer.h"

#include <numeric>

namespace specdec {

std::size_t FeatureLayer::bytes() const {
  return fc->bytes() + block->layer_bytes() + (embedding ? embedding->bytes() : 0) +
         (head.matrix ? head.matrix->bytes() : 0);
}

FeatureInput::FeatureInput(const LlamaModel& target, const FeatureLayer& layer, int max_rows)
    : target_(target),
      layer_(layer),
      both_(target.backend(), std::size_t(max_rows) * 2 * target.config().d_model),
      embedded_(target.backend(), std::size_t(max_rows) * target.config().d_model),
      biases_(target.backend(), std::size_t(max_rows) * layer.fc_bias.size()),
      each_(target.backend(), max_rows) {
  Backend& backend = target.backend();
  std::vector<std::int32_t> numbers(max_rows);
  if (const int E = static_cast<int>(layer.fc_bias.size()); E > 0) {
    backend.upload(numbers.data(), each_.data(), numbers.size() * sizeof(std::int32_t));
    backend.gather_rows(matrix(layer.fc_bias, 1, E), each_.data(), matrix(biases_, max_rows, E));
  }
  std::iota(numbers.begin(), numbers.end(), 0);
  backend.upload(numbers.data(), each_.data(), numbers.size() * sizeof(std::int32_t));
}

// [snippet enter]
ConstDeviceRows FeatureInput::enter(Backend& ops, const std::int32_t* ids, int first,
                                    DeviceRows x) {
  // [task 9.3: what enters the layer]
  const FeatureSwitches& is = layer_.switches;
  const int T = x.rows, E = x.width;
  const ConstDeviceRows features = features_.slice(first, T);
  const DeviceRows both = matrix(both_, T, 2 * E);
  const DeviceRows embedding = both.columns(is.feature_first ? E : 0, E);
  const DeviceRows feature = both.columns(is.feature_first ? 0 : E, E);
  put_side_by_side(ops, ids, features, embedding, feature);
  if (is.attention == FeatureAttention::kBoth) {
    ops.gather_rows(is.normed_stream ? feature : features, each_.data(), x);
    return both;
  }
  ops.matmul(both, *layer_.fc, x);
  if (layer_.fc_bias.size() > 0) ops.add(x, matrix(biases_, T, E));
  if (is.attention == FeatureAttention::kStream) return x;
  return {};  // the block's own norm of x
  // [end task 9.3]
}
// [end snippet enter]

void FeatureInput::put_side_by_side(Backend& ops, const std::int32_t* ids, ConstDeviceRows features,
                                    DeviceRows embedding, DeviceRows feature) {
  const WeightMatrix& table = layer_.embedding ? *layer_.embedding : target_.embedding();
  if (ids_ != nullptr) ids = ids_;
  if (!layer_.switches.normed) {
    ops.embed(table, ids, embedding);
    ops.gather_rows(features, each_.data(), feature);
    return;
  }
  const float eps = layer_.block->config().rms_norm_eps;
  const DeviceRows embedded = matrix(embedded_, embedding.rows, embedding.width);
  ops.embed(table, ids, embedded);
  ops.rms_norm(embedded, layer_.embedding_norm.data(), eps, embedding);
  ops.rms_norm(features, layer_.feature_norm.data(), eps, feature);
}

}  // namespace specdec
