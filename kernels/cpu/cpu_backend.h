#pragma once
#include <memory>

#include "kernels/ops.h"

namespace specdec {

// The fast CPU backend: vectorised, `threads` threads (0: one for each core the process may use).
std::unique_ptr<Backend> make_cpu_backend(int threads = 0);

// Every operation as plain loops in one thread: the explanation of the fast ones, and their oracle.
// It gives the same bits. Weights stay as they are in the checkpoint.
std::unique_ptr<Backend> make_plain_backend();

}  // namespace specdec
