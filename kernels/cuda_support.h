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
  std::vector<CudaDevice> devices;  // the GPUs it can run on; empty where `problem` says why
  std::string problem;              // one line; empty when there is a device
};

// What this program can do with CUDA on this machine. Never fails: no driver, no GPU and "built
// without CUDA" are answers. Not for hot paths: the first call starts the driver.
CudaSupport cuda_support();

}  // namespace specdec
