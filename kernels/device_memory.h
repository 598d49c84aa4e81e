#pragma once
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>

namespace specdec {

// Views of a backend's memory: the host's for the CPU, the GPU's for CUDA. Code outside kernels/
// never dereferences their pointers; Backend::upload and download move the contents.

// A matrix of float32 in a backend's memory. Row r is data + r * stride, `width` floats long.
struct DeviceRows {
  float* data = nullptr;
  int rows = 0;
  int width = 0;
  std::ptrdiff_t stride = 0;  // floats from one row to the next, >= width

  float* row(int r) const { return data + r * stride; }
  // REQUIRES: the range lies inside.
  DeviceRows slice(int first, int count) const { return {row(first), count, width, stride}; }
  DeviceRows columns(int first, int count) const { return {data + first, rows, count, stride}; }
};

// A read-only view.
struct ConstDeviceRows {
  const float* data = nullptr;
  int rows = 0;
  int width = 0;
  std::ptrdiff_t stride = 0;

  ConstDeviceRows() = default;
  ConstDeviceRows(const float* data_, int rows_, int width_, std::ptrdiff_t stride_)
      : data(data_), rows(rows_), width(width_), stride(stride_) {}
  ConstDeviceRows(const DeviceRows& view)  // NOLINT: every matrix can be read
      : data(view.data), rows(view.rows), width(view.width), stride(view.stride) {}

  const float* row(int r) const { return data + r * stride; }
  ConstDeviceRows slice(int first, int count) const { return {row(first), count, width, stride}; }
};

// A device with its own memory has no room for a block.
class OutOfDeviceMemory : public std::bad_alloc {
 public:
  OutOfDeviceMemory(std::size_t wanted_, std::size_t free_, std::size_t total_)
      : wanted(wanted_), free(free_), total(total_) {}
  const char* what() const noexcept override { return "out of device memory"; }

  std::size_t wanted, free, total;  // bytes: of the block, and of the device
};

// Allocates a backend's memory. Blocks are aligned to 64 bytes, with undefined contents.
class DeviceAllocator {
 public:
  virtual ~DeviceAllocator() = default;
  virtual void* allocate(std::size_t bytes) = 0;  // throws std::bad_alloc
  virtual void deallocate(void* block) = 0;
};

// Owns `size` elements of a backend's memory. The allocator outlives it.
template <typename T>
class DeviceArray {
  static_assert(std::is_trivial_v<T>);

 public:
  DeviceArray() = default;
  DeviceArray(DeviceAllocator& allocator, std::size_t size)
      : block_(static_cast<T*>(allocator.allocate(size * sizeof(T))), Release{&allocator}),
        size_(size) {}

  T* data() const { return block_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Release {
    DeviceAllocator* allocator = nullptr;
    void operator()(T* block) const { allocator->deallocate(block); }
  };
  std::unique_ptr<T, Release> block_;
  std::size_t size_ = 0;
};

// The first rows of an array as a dense matrix. REQUIRES: rows * width <= size.
inline DeviceRows matrix(const DeviceArray<float>& array, int rows, int width) {
  return {array.data(), rows, width, width};
}

}  // namespace specdec
