#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mapped_file.h"
#include "common/checkpoint/dtype.h"

namespace specdec {

// The safetensors format: 8 bytes with the header's length N, little-endian; N bytes of JSON with
// the name, dtype, shape and byte range of each tensor; then the tensors' bytes, without holes.
// https://huggingface.co/docs/safetensors

// A view of a row-major tensor; it does not own the memory. Beware: the format promises no
// alignment beyond 8 bytes, and that only if the header was padded.
struct TensorView {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;   // empty: a scalar
  std::span<const std::byte> bytes;  // product(shape) elements

  std::int64_t elements() const;
};

// What a header says about one tensor.
struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // offsets from the start of the data, which follows the header
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::uint64_t data_start = 0;                 // offset of the data from the start of the file
  std::vector<TensorEntry> tensors;             // in the order of their data
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

// Bytes of a tensor of that type and shape. Throws Error, beginning with `where`, when 64 bits
// cannot count them or the elements do not fill whole bytes.
std::uint64_t tensor_bytes(DType dtype, std::span<const std::int64_t> shape,
                           const std::string& where);

// Reads and checks a header as the reference implementation does: length, JSON, types, shapes,
// ranges without overlap or hole, and a file that ends where the last tensor ends.
// `file`: the whole file. `name`: its name in messages. Throws Error.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& name);

// A file opened by mmap: opening reads only the header, whatever the file's size.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);  // throws Error

  const std::string& name() const { return name_; }
  const SafetensorsHeader& header() const { return header_; }

  // The tensor of that name; Error when there is none. The view lives as long as this object.
  TensorView tensor(std::string_view tensor_name) const;
  bool contains(std::string_view tensor_name) const { return by_name_.contains(tensor_name); }

 private:
  std::string name_;
  MappedFile file_;
  SafetensorsHeader header_;
  std::map<std::string, std::size_t, std::less<>> by_name_;  // index into header_.tensors
};

}  // namespace specdec
