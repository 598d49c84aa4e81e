#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace specdec {

struct CudaDevice {
  std::string name;
  int compute_capability = 0;  // 90 for 9.0
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
};

struct CudaSupport {
  bool built = false;               // this program contains the CUDA backend
  std::vector<CudaDevice> devices;  // visible to the driver
  std::string problem;              // one line: why CUDA cannot be used; empty if it can
};

// What this program can do with CUDA on this machine, on the first device, which is the one it
// uses. Never fails: no driver, no GPU and "built without CUDA" are valid answers. Not for hot
// paths: the first call starts the driver.
CudaSupport cuda_support();

// What the driver reports, for cuda_problem().
struct CudaFacts {
  int driver_version = 0;   // the newest that the driver supports: 13000 for 13.0; 0: no driver
  int runtime_version = 0;  // the CUDA that this program was built with
  std::string error;        // from listing the devices; empty: none
  std::vector<CudaDevice> devices;
  std::string architectures;  // for which the program has code: "80, 90"
  bool has_code = false;      // for the first device
};

// One line that says why CUDA does not work and what to do; empty if it works.
std::string cuda_problem(const CudaFacts& facts);

}  // namespace specdec
