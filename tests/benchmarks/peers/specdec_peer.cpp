// This project's models, as peer.h asks for them.
//
//   specdec_peer THREADS POSITIONS TOKENS stored|int8|q4 TARGET_DIR [DRAFT_DIR]
//
// POSITIONS: that the caches hold. TOKENS: ids from here on are no tokens.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "common/llama.h"
#include "kernels/cpu/cpu_backend.h"
#include "stages/03_paged_kv_cache/paged_kv_cache.h"
#include "tests/benchmarks/peers/peer.h"

namespace specdec::peers {
namespace {

constexpr int kPageSize = 16;

class SpecdecModel final : public PeerModel {
 public:
  SpecdecModel(const char* directory, WeightFormat format, Backend& backend, int positions,
               int tokens)
      : model_(Checkpoint(directory), backend, {}, format),
        cache_(backend, model_.kv_shape(), (positions - 1) / kPageSize + 1, kPageSize),
        llama_(model_, cache_, {.token_limit = tokens}),
        logits_(llama_, kMostLogitsRows),
        sequence_(llama_.create()),
        tokens_(static_cast<std::size_t>(std::min(tokens, llama_.vocab_size()))) {}

  void forward(std::span<const int> tokens, int rows) override {
    llama_.forward(Segment{sequence_, tokens, rows}, logits_.rows(0, rows));
  }
  std::span<const float> logits(int row) const override {
    return {logits_.rows(row, 1).data, tokens_};  // the CPU backend's memory is the host's
  }
  void truncate(int length) override { llama_.truncate(sequence_, length); }
  int length() const override { return llama_.length(sequence_); }

 private:
  LlamaModel model_;
  PagedKvCache cache_;
  Llama llama_;
  LogitsBuffer logits_;
  SequenceId sequence_;
  std::size_t tokens_;
};

std::optional<WeightFormat> format_of(const std::string& name) {
  if (name == "stored") return WeightFormat::kStored;
  if (name == "int8") return WeightFormat::kInt8;
  if (name == "q4") return WeightFormat::kQ4;
  return std::nullopt;
}

int run(int argc, char** argv) {
  const auto format = format_of(argc > 4 ? argv[4] : "");
  if (argc < 6 || argc > 7 || !format) {
    std::fprintf(stderr,
                 "usage: %s THREADS POSITIONS TOKENS stored|int8|q4 TARGET_DIR [DRAFT_DIR]\n",
                 argv[0]);
    return 2;
  }
  const auto backend = make_cpu_backend(std::atoi(argv[1]));
  const auto load = [&](const char* directory) {
    return std::make_unique<SpecdecModel>(directory, *format, *backend, std::atoi(argv[2]),
                                          std::atoi(argv[3]));
  };
  const auto target = load(argv[5]);
  const auto draft = argc > 6 ? load(argv[6]) : nullptr;
  return serve(*target, draft.get());
}

}  // namespace
}  // namespace specdec::peers

int main(int argc, char** argv) {
  try {
    return specdec::peers::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "specdec_peer: %s\n", error.what());
    return 2;
  }
}
