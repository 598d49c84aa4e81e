// The style of death tests: a child that CUDA survives.
#include <unistd.h>

#include "tests/cuda/kernel_test.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

const pid_t kProgram = getpid();  // at the start of this program

class DeathTestStyle : public KernelTest {};

TEST_F(DeathTestStyle, AChildStartsAnewAndForksNoDevice) {
  device();  // CUDA is in use
  EXPECT_EXIT(std::_Exit(getpid() == kProgram ? 3 : 4), ::testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
