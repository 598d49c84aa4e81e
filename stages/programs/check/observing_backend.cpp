#include "stages/programs/check/observing_backend.h"

#include <utility>

namespace specdec {

ObservingBackend::ObservingBackend(const LlamaModel& model, TensorObserver see)
    : model_(model), ops_(model.backend()), see_(std::move(see)) {}

void ObservingBackend::embed(const WeightMatrix& table, const std::int32_t* ids, DeviceRows out) {
  ops_.embed(table, ids, out);
  layer_ = 0;
  see_(TensorKind::kEmbedding, -1, out);
}

void ObservingBackend::rms_norm(ConstDeviceRows x, const float* weight, float eps, DeviceRows out) {
  ops_.rms_norm(x, weight, eps, out);
  const bool last = weight == model_.final_norm().data();
  see_(last ? TensorKind::kFinalNorm : TensorKind::kAttnNorm, last ? -1 : layer_, out);
}

void ObservingBackend::add_rms_norm(DeviceRows x, ConstDeviceRows y, const float* weight, float eps,
                                    DeviceRows out) {
  ops_.add_rms_norm(x, y, weight, eps, out);
  see_(TensorKind::kAttnResidual, layer_, x);
  see_(TensorKind::kMlpNorm, layer_, out);
}

void ObservingBackend::matmul(ConstDeviceRows x, const WeightMatrix& weight, DeviceRows y) {
  ops_.matmul(x, weight, y);
  const LlamaConfig& c = model_.config();
  if (&weight == &model_.head()) return see_(TensorKind::kLogits, -1, y);
  const LlamaLayer& weights = model_.layer(layer_);
  if (&weight == weights.qkv.get()) {
    const int q_width = c.n_heads * c.head_dim, kv_width = c.n_kv_heads * c.head_dim;
    see_(TensorKind::kQ, layer_, y.columns(0, q_width));
    see_(TensorKind::kK, layer_, y.columns(q_width, kv_width));
    see_(TensorKind::kV, layer_, y.columns(q_width + kv_width, kv_width));
  } else if (&weight == weights.gate_up.get()) {
    see_(TensorKind::kGate, layer_, y.columns(0, c.d_ff));
    see_(TensorKind::kUp, layer_, y.columns(c.d_ff, c.d_ff));
  } else if (&weight == weights.down_proj.get()) {
    see_(TensorKind::kMlpOut, layer_, y);
  }
}

void ObservingBackend::add(DeviceRows x, ConstDeviceRows y) {
  ops_.add(x, y);
  see_(TensorKind::kResidual, layer_, x);
  ++layer_;  // the end of a block
}

void ObservingBackend::rope_store_kv(DeviceRows q, DeviceRows k, ConstDeviceRows v,
                                     ConstDeviceRows cosines, ConstDeviceRows sines,
                                     const RowPlaces& places, KvLayer cache) {
  ops_.rope_store_kv(q, k, v, cosines, sines, places, cache);
  see_(TensorKind::kQRope, layer_, q);
  see_(TensorKind::kKRope, layer_, k);
}

void ObservingBackend::attention(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                                 const HeadShape& heads, DeviceRows out) {
  ops_.attention(q, cache, places, heads, out);
  see_(TensorKind::kAttnOut, layer_, out);
}

}  // namespace specdec
