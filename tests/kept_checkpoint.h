#pragma once
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/elements.h"
#include "common/checkpoint/safetensors_writer.h"
#include "kernels/cpu/quantize.h"

namespace specdec {

// A row in groups, as bytes.
inline std::vector<std::byte> row_in_groups(std::span<const float> row, DType dtype) {
  const int width = static_cast<int>(row.size());
  const auto bytes = std::as_bytes(row);
  std::vector<std::byte> result;
  const auto append = [&](const auto& groups) {
    const auto all = std::as_bytes(std::span(groups));
    result.assign(all.begin(), all.end());
  };
  if (dtype == DType::kQ4_1) {
    std::vector<cpu::Q4Group> groups(row.size() / kGroupElements);
    cpu::quantize_q4(WeightType::kF32, bytes.data(), width, groups.data());
    append(groups);
    return result;
  }
  std::vector<cpu::Q8Group> groups(row.size() / kGroupElements);
  for (std::size_t i = 0; i < row.size(); i++) {
    cpu::Q8Group& group = groups[i / kGroupElements];
    const auto of_group = row.subspan(i / kGroupElements * kGroupElements, kGroupElements);
    const float largest = std::abs(
        *std::ranges::max_element(of_group, {}, [](float weight) { return std::abs(weight); }));
    group.scale = cpu::f16_from_float(largest / 127);
    const float q = std::nearbyint(row[i] / cpu::float_from_f16(group.scale));
    group.q[i % kGroupElements] = static_cast<std::int8_t>(std::clamp(q, -128.0f, 127.0f));
  }
  append(groups);
  return result;
}

// Writes a checkpoint whose embedding and head are Q8_0, as in most GGUF files, with layers in
// groups of this type. REQUIRES: rows of whole groups.
inline void write_kept_copy(const std::filesystem::path& from, const std::filesystem::path& to,
                            DType layers = DType::kQ4_1) {
  const Checkpoint checkpoint(from);
  std::vector<std::vector<std::byte>> memory;
  std::vector<NamedTensor> tensors;
  for (const SafetensorsFile& file : checkpoint.files()) {
    for (const TensorEntry& entry : file.header().tensors) {
      const TensorView view = file.tensor(entry.name);
      if (view.shape.size() != 2) {
        tensors.push_back({entry.name, view});
        continue;
      }
      const DType dtype = entry.name.starts_with("model.layers.") ? layers : DType::kQ8_0;
      const std::vector<float> numbers = to_float32(view);
      const auto width = static_cast<std::size_t>(view.shape[1]);
      std::vector<std::byte> all;
      for (std::size_t first = 0; first < numbers.size(); first += width) {
        const auto row = row_in_groups(std::span(numbers).subspan(first, width), dtype);
        all.insert(all.end(), row.begin(), row.end());
      }
      memory.push_back(std::move(all));
      const std::vector<std::int64_t> shape{view.shape[0],
                                            std::ssize(memory.back()) / view.shape[0]};
      tensors.push_back({entry.name + (dtype == DType::kQ8_0 ? ".q8_0" : ".q4_1"),
                         {DType::kU8, shape, std::span(memory.back())}});
    }
  }
  std::filesystem::create_directories(to);
  std::filesystem::copy(from / "config.json", to);
  write_safetensors(to / "model.safetensors", tensors);
}

}  // namespace specdec
