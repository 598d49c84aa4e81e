#include "common/checkpoint/safetensors_writer.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/base/check.h"
#include "common/base/output_file.h"

namespace specdec {
namespace {

// The text, padded, after its length in 8 bytes, little-endian.
std::string with_length(std::string text) {
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 0xFF);
  return length + text;
}

}  // namespace

std::string safetensors_header(std::vector<TensorEntry>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  std::ranges::sort(tensors, [](const TensorEntry& a, const TensorEntry& b) {
    return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t position = 0;
  for (TensorEntry& tensor : tensors) {
    SPECDEC_CHECK(!header.contains(tensor.name), "one tensor named {}", tensor.name);
    tensor.begin = position;
    tensor.end = position += tensor_bytes(tensor.dtype, tensor.shape, tensor.name);
    header[tensor.name] = {{"dtype", dtype_name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {tensor.begin, tensor.end}}};
  }
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  return with_length(header.dump(-1, ' ', false, kReplace));  // bytes that are not UTF-8
}

void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::map<std::string, const TensorView*> views;
  std::vector<TensorEntry> entries;
  for (const auto& [name, view] : tensors) {
    views[name] = &view;
    entries.push_back({name, view.dtype, view.shape, 0, 0});
  }
  OutputFile file(path);
  file.write(safetensors_header(entries, metadata));
  for (const TensorEntry& entry : entries) {
    const std::span<const std::byte> bytes = views[entry.name]->bytes;
    SPECDEC_CHECK(bytes.size() == entry.end - entry.begin,
                  "{}, which has {} bytes, to have the {} that its shape needs", entry.name,
                  bytes.size(), entry.end - entry.begin);
    file.write(bytes);
  }
  file.commit();
}

}  // namespace specdec
