#pragma once
#include <memory>

#include "kernels/ops.h"

namespace specdec {

// The fast CPU backend, vectorised. threads: 0 means one for each core that the process may use.
std::unique_ptr<Backend> make_cpu_backend(int threads = 0);

// Every operation as plain loops in one thread: it explains the fast backend and is its test
// oracle. It gives the same bits, and keeps weights in the checkpoint's layout.
std::unique_ptr<Backend> make_plain_backend();

}  // namespace specdec
