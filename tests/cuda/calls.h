#pragma once
#include <cstddef>
#include <ostream>

#include "kernels/emulation/cuda_on_cpu.h"

namespace specdec {

// Counts of calls to a device.
struct Calls {
  std::size_t launches, graphs, uploads, downloads, waits;

  bool operator==(const Calls&) const = default;
  friend std::ostream& operator<<(std::ostream& out, const Calls& c) {
    return out << c.launches << " launches, " << c.graphs << " of graphs, " << c.uploads
               << " uploads, " << c.downloads << " downloads, " << c.waits << " waits";
  }
};

inline Calls calls(const emulation::Traffic& traffic) {
  return {traffic.launches, traffic.graph_launches, traffic.uploads, traffic.downloads,
          traffic.waits};
}

}  // namespace specdec
