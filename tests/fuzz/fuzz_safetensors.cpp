// Any bytes as a safetensors file: an Error, or tensors that fill the file from end to end, and a
// header that the writer writes again with the same meaning.
#include <string>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/safetensors_writer.h"

using namespace specdec;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    SafetensorsHeader header = parse_safetensors(bytes, "fuzz");
    std::uint64_t position = header.data_start;
    for (const TensorEntry& tensor : header.tensors) {
      SPECDEC_CHECK(header.data_start + tensor.begin == position, "no hole, no overlap");
      position = header.data_start + tensor.end;
    }
    SPECDEC_CHECK(position == size, "the tensors to end where the file ends");

    const std::size_t count = header.tensors.size();
    std::string again = safetensors_header(header.tensors, header.metadata);
    again.append(size - header.data_start, '\0');
    const SafetensorsHeader second = parse_safetensors(std::as_bytes(std::span(again)), "again");
    SPECDEC_CHECK(second.tensors.size() == count && second.metadata == header.metadata,
                  "to read back what was written");
  } catch (const Error&) {  // refused
  }
  return 0;
}
