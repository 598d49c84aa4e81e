#pragma once
#include "tests/unit/common/memory_backend.h"

namespace specdec {

// It has only memory, and counts what is taken.
class CountingBackend final : public MemoryBackend {
 public:
  void* allocate(std::size_t bytes) override {
    allocated += bytes;
    return MemoryBackend::allocate(bytes);
  }
  std::unique_ptr<const WeightMatrix> load_matrix(std::span<const HostMatrix> parts,
                                                  WeightFormat) override {
    int rows = 0;
    std::size_t bytes = 0;
    for (const HostMatrix& part : parts) {
      rows += part.rows;
      bytes += part.bytes.size();
    }
    weights += bytes;
    return std::make_unique<Weights>(rows, parts[0].width, bytes);
  }

  void gather_rows(ConstDeviceRows, const std::int32_t*, DeviceRows) override {}
  void fill(DeviceRows, float) override {}

  // What `action` allocates.
  template <typename Action>
  std::size_t taken_by(Action&& action) {
    const std::size_t before = allocated;
    action();
    return allocated - before;
  }

  std::size_t allocated = 0, weights = 0;

 private:
  struct Weights final : WeightMatrix {
    Weights(int rows, int width, std::size_t bytes) : WeightMatrix(rows, width, bytes) {}
  };
};

}  // namespace specdec
