#include "common/base/memory.h"

#include <array>

#include <fmt/format.h>

#include "kernels/device_memory.h"

namespace specdec {

std::string readable_bytes(double bytes) {
  static constexpr std::array<const char*, 7> kUnits = {"bytes", "kB", "MB", "GB",
                                                        "TB",    "PB", "EB"};
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  std::size_t unit = 0;
  // 999.95 would be printed as 1000.0.
  for (; bytes >= 999.95 && unit + 1 < kUnits.size(); ++unit) bytes /= 1000;
  return fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string memory_left(const std::bad_alloc& error) {
  const auto* device = dynamic_cast<const OutOfDeviceMemory*>(&error);
  if (device == nullptr) return "there is not enough memory";
  return fmt::format("a block of {} does not fit: {} of the device's {} are free",
                     readable_bytes(device->wanted), readable_bytes(device->free),
                     readable_bytes(device->total));
}

}  // namespace specdec
