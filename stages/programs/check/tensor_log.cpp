#include "stages/programs/check/tensor_log.h"

#include "common/base/check.h"
#include "common/base/json_value.h"
#include "common/checkpoint/safetensors_writer.h"
#include "kernels/int_size.h"
#include "stages/programs/check/observing_backend.h"

namespace specdec {

std::string tensor_name(TensorKind kind, int layer) {
  const std::string name(tensor_kind_name(kind));
  return layer < 0 ? name : fmt::format("layers.{}.{}", layer, name);
}

void TensorLog::add(TensorKind kind, int layer, std::span<const float> rows, int width) {
  Tensor& tensor = tensors_[tensor_name(kind, layer)];
  SPECDEC_CHECK(tensor.width == 0 || tensor.width == width, "rows of {}, not {}", tensor.width,
                width);
  tensor.width = width;
  tensor.values.insert(tensor.values.end(), rows.begin(), rows.end());
}

TensorLookup TensorLog::lookup() const {
  return [this](const std::string& name) -> std::optional<TensorView> {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) return std::nullopt;
    const Tensor& tensor = found->second;
    return float_tensor(tensor.values, std::ssize(tensor.values) / tensor.width, tensor.width);
  };
}

void TensorLog::write(const std::filesystem::path& path) const {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : tensors_) tensors.push_back({name, *lookup()(name)});
  write_safetensors(path, tensors);
}

TensorLog record_forward(Llama& model, std::span<const TokenId> tokens) {
  TensorLog log;
  const LogitsBuffer logits(model, int_size(tokens));
  const SequenceId sequence = model.create();
  ObservingBackend observing(model.model(), [&](TensorKind kind, int layer, ConstDeviceRows rows) {
    log.add(kind, layer, to_host(model.backend(), rows), rows.width);
  });
  model.compute_through(observing);
  const int n_tokens = int_size(tokens);
  model.forward(Segment{sequence, tokens, n_tokens}, logits.rows(0, n_tokens));
  model.compute_through(model.backend());
  model.release(sequence);
  return log;
}

TensorLog record_cache(const KvCache& cache, SequenceId sequence) {
  TensorLog log;
  const KvMemory& memory = cache.memory();
  for (int i = 0; i < memory.shape().n_layers; ++i) {
    for (int position = 0; position < cache.length(sequence); ++position) {
      const KvMemory::Stored stored = memory.read(i, cache.slot(sequence, position));
      log.add(TensorKind::kKRope, i, stored.key, memory.shape().width());
      log.add(TensorKind::kV, i, stored.value, memory.shape().width());
    }
  }
  return log;
}

void LogitsLog::add(std::span<const float> row) {
  if (!wanted()) return;
  width_ = int_size(row);
  values_.insert(values_.end(), row.begin(), row.end());
}

void LogitsLog::add(Backend& backend, ConstDeviceRows rows) {
  if (!wanted()) return;
  width_ = rows.width;
  const std::vector<float> values = to_host(backend, rows);
  values_.insert(values_.end(), values.begin(), values.end());
}

void LogitsLog::write() const {
  if (!wanted()) return;
  const NamedTensor tensor{"logits", float_tensor(values_, std::ssize(values_) / width_, width_)};
  write_safetensors(path_, std::span(&tensor, 1));
}

}  // namespace specdec
