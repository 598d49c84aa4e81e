#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "kernels/ops.h"

namespace specdec {

// A backend that has limited memory and no kernels, for tests of how caches keep track of memory.
// New memory is full of NaN, so that reading an unwritten value makes a test fail.
class MemoryBackend : public Backend {
 public:
  explicit MemoryBackend(std::size_t limit = std::size_t{1} << 30) : limit_(limit) {}
  MemoryBackend(const MemoryBackend&) = delete;
  MemoryBackend& operator=(const MemoryBackend&) = delete;

  std::size_t live_blocks() const { return live_blocks_; }

  void* allocate(std::size_t bytes) override {
    if (bytes > limit_ - used_) throw std::bad_alloc();
    used_ += bytes;  // never decreases: the limit is on the sum of all allocations
    live_blocks_++;
    auto* block = static_cast<float*>(std::malloc(std::max<std::size_t>(bytes, 1)));
    std::fill_n(block, bytes / sizeof(float), std::numeric_limits<float>::quiet_NaN());
    return block;
  }
  void deallocate(void* block) override {
    live_blocks_--;
    std::free(block);
  }

  std::string name() const override { return "memory only"; }
  void upload(const void* host, void* device, std::size_t bytes) override {
    std::memcpy(device, host, bytes);
  }
  void download(const void* device, void* host, std::size_t bytes) override {
    std::memcpy(host, device, bytes);
  }
  Parcel parcel(std::size_t bytes) override {
    parcel_.resize(std::max(parcel_.size(), bytes));
    return {parcel_.data(), parcel_.data()};
  }
  void send(std::size_t) override {}
  void copy(const void* from, void* to, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }

  std::unique_ptr<const WeightMatrix> load_matrix(std::span<const HostMatrix>,
                                                  WeightFormat) override {
    no();
  }
  void embed(const WeightMatrix&, const std::int32_t*, DeviceRows) override { no(); }
  void gather_rows(ConstDeviceRows, const std::int32_t*, DeviceRows) override { no(); }
  void rms_norm(ConstDeviceRows, const float*, float, DeviceRows) override { no(); }
  void matmul(ConstDeviceRows, const WeightMatrix&, DeviceRows) override { no(); }
  void add(DeviceRows, ConstDeviceRows) override { no(); }
  void silu_mul(ConstDeviceRows, ConstDeviceRows, DeviceRows) override { no(); }
  void rope_angles(const std::int32_t*, const float*, DeviceRows, DeviceRows) override { no(); }
  void rope(DeviceRows, ConstDeviceRows, ConstDeviceRows) override { no(); }
  void store_kv(ConstDeviceRows, ConstDeviceRows, const RowPlaces&, KvLayer) override { no(); }
  void attention(ConstDeviceRows, const KvLayer&, const RowPlaces&, const HeadShape&,
                 DeviceRows) override {
    no();
  }
  void fill(DeviceRows, float) override { no(); }
  void argmax(ConstDeviceRows, std::span<std::int32_t>) override { no(); }
  void argmax_on_device(ConstDeviceRows, std::int32_t*) override { no(); }

 private:
  [[noreturn]] static void no() { check_failed(__FILE__, __LINE__, "no", "only memory is used"); }

  std::size_t limit_;
  std::size_t used_ = 0;
  std::size_t live_blocks_ = 0;
  std::vector<std::byte> parcel_;
};

}  // namespace specdec
