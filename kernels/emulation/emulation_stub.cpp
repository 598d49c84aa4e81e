#include <stdexcept>

#include "kernels/cuda_backend.h"

namespace specdec {

std::unique_ptr<Backend> make_emulated_backend(Gemm) {
  throw std::runtime_error(
      "built without the emulation of CUDA: configure with -DSPECDEC_EMULATION=ON");
}

}  // namespace specdec
