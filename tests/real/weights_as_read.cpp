// Writes all matrices of a checkpoint to standard output as the engine reads them, in float32: the
// embedding, then q, k, v, o, gate, up and down of each layer, then the head unless it is tied.
//
//   weights_as_read CHECKPOINT_DIR
#include <cstdio>
#include <exception>
#include <numeric>
#include <vector>

#include "common/base/check.h"
#include "common/checkpoint/checkpoint.h"
#include "common/llama_model.h"
#include "kernels/cpu/cpu_backend.h"

namespace specdec {
namespace {

constexpr WeightKind kOfALayer[] = {
    WeightKind::kQProj,    WeightKind::kKProj,  WeightKind::kVProj,   WeightKind::kOProj,
    WeightKind::kGateProj, WeightKind::kUpProj, WeightKind::kDownProj};

void write(Backend& backend, const Weight& weight) {
  const HostMatrix host = host_matrix(weight.view);
  const auto matrix = backend.load_matrix({&host, 1});
  std::vector<std::int32_t> ids(static_cast<std::size_t>(host.rows));
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<float> numbers(ids.size() * static_cast<std::size_t>(host.width));
  backend.embed(*matrix, ids.data(), {numbers.data(), host.rows, host.width, host.width});
  SPECDEC_CHECK(
      std::fwrite(numbers.data(), sizeof(float), numbers.size(), stdout) == numbers.size(),
      "room for the numbers");
}

void write(const char* directory) {
  const Checkpoint checkpoint(directory);
  const auto backend = make_cpu_backend(1);
  write(*backend, checkpoint.weight(WeightKind::kEmbedding, -1));
  for (int layer = 0; layer < checkpoint.config().n_layers; layer++) {
    for (const WeightKind kind : kOfALayer) write(*backend, checkpoint.weight(kind, layer));
  }
  if (!checkpoint.config().tied_head) write(*backend, checkpoint.weight(WeightKind::kHead, -1));
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CHECKPOINT_DIR\n", argv[0]);
    return 2;
  }
  try {
    specdec::write(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weights_as_read: %s\n", error.what());
    return 2;
  }
}
