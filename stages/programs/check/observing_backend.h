#pragma once
#include <functional>

#include "common/llama.h"
#include "common/tensor_kind.h"

namespace specdec {

// Gets the tensors of a pass as they are computed, one row per token of the pass. final_norm and
// logits have rows only for tokens whose logits are wanted. layer: -1 outside the layers.
using TensorObserver = std::function<void(TensorKind kind, int layer, ConstDeviceRows rows)>;

// A Llama's backend that shows the output of each operation. It recognises a tensor by its weights
// or its operation, so the engine's code names no tensor.
class ObservingBackend final : public Backend {
 public:
  // REQUIRES: the model outlives this object.
  ObservingBackend(const LlamaModel& model, TensorObserver see);

  std::string name() const override { return ops_.name(); }
  void upload(const void* host, void* device, std::size_t bytes) override {
    ops_.upload(host, device, bytes);
  }
  void download(const void* device, void* host, std::size_t bytes) override {
    ops_.download(device, host, bytes);
  }
  Parcel parcel(std::size_t bytes) override { return ops_.parcel(bytes); }
  void send(std::size_t bytes) override { ops_.send(bytes); }
  void copy(const void* from, void* to, std::size_t bytes) override { ops_.copy(from, to, bytes); }
  std::unique_ptr<const WeightMatrix> load_matrix(std::span<const HostMatrix> parts,
                                                  WeightFormat format) override {
    return ops_.load_matrix(parts, format);
  }
  void embed(const WeightMatrix& table, const std::int32_t* ids, DeviceRows out) override;
  void gather_rows(ConstDeviceRows x, const std::int32_t* rows, DeviceRows out) override {
    ops_.gather_rows(x, rows, out);
  }
  void rms_norm(ConstDeviceRows x, const float* weight, float eps, DeviceRows out) override;
  void add_rms_norm(DeviceRows x, ConstDeviceRows y, const float* weight, float eps,
                    DeviceRows out) override;
  void matmul(ConstDeviceRows x, const WeightMatrix& weight, DeviceRows y) override;
  void add(DeviceRows x, ConstDeviceRows y) override;
  void silu_mul(ConstDeviceRows gate, ConstDeviceRows up, DeviceRows out) override {
    ops_.silu_mul(gate, up, out);
  }
  void rope_angles(const std::int32_t* positions, const float* frequencies, DeviceRows cosines,
                   DeviceRows sines) override {
    ops_.rope_angles(positions, frequencies, cosines, sines);
  }
  void rope(DeviceRows x, ConstDeviceRows cosines, ConstDeviceRows sines) override {
    ops_.rope(x, cosines, sines);
  }
  void store_kv(ConstDeviceRows k, ConstDeviceRows v, const RowPlaces& places,
                KvLayer cache) override {
    ops_.store_kv(k, v, places, cache);
  }
  void rope_store_kv(DeviceRows q, DeviceRows k, ConstDeviceRows v, ConstDeviceRows cosines,
                     ConstDeviceRows sines, const RowPlaces& places, KvLayer cache) override;
  void attention(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
                 const HeadShape& heads, DeviceRows out) override;
  void fill(DeviceRows x, float value) override { ops_.fill(x, value); }
  void argmax(ConstDeviceRows x, std::span<std::int32_t> ids) override { ops_.argmax(x, ids); }
  void argmax_on_device(ConstDeviceRows x, std::int32_t* ids) override {
    ops_.argmax_on_device(x, ids);
  }
  void wait() override { ops_.wait(); }
  void* allocate(std::size_t bytes) override { return ops_.allocate(bytes); }
  void deallocate(void* block) override { ops_.deallocate(block); }

 private:
  const LlamaModel& model_;
  Backend& ops_;
  TensorObserver see_;
  int layer_ = 0;  // of the block that is being computed
};

}  // namespace specdec
