// Greedy decoding (M = 1), verification of M - 1 drafts and a prefill of 64 tokens by whole models:
// the embedded ones inflated to the shapes of Llama 3.2 1B and 3B, by each of the three products.
// What counts is a pass and its argmax, with all that passes between host and device.
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "common/checkpoint/checkpoint.h"
#include "common/embedded_models.h"
#include "common/inflation/inflated_config.h"
#include "common/inflation/inflated_weights.h"
#include "common/llama.h"
#include "kernels/cuda_backend.h"
#include "stages/03_paged_kv_cache/paged_kv_cache.h"
#include "tests/benchmarks/cuda_samples.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kCached = 64, kMostRows = 64, kMostLogits = 8, kPageSize = 16;

std::unique_ptr<Backend> make_backend(Gemm gemm) {
#ifdef SPECDEC_EMULATED
  return make_emulated_backend(gemm);
#else
  return make_cuda_backend(gemm);
#endif
}

LlamaModel load(const std::string& shape, Backend& backend) {
  const Checkpoint base(shape == "3b" ? embedded_target() : embedded_draft());
  if (shape == "embedded") return LlamaModel(base, backend);
  const InflatedWeights inflated(base, inflated_config(base.config(), shape, "the benchmark"), 0);
  return LlamaModel(inflated, backend);
}

// A model with one sequence of kCached tokens.
class Decoder {
 public:
  Decoder(const std::string& shape, Gemm gemm)
      : backend_(make_backend(gemm)),
        model_(load(shape, *backend_)),
        cache_(*backend_, model_.kv_shape(), (kCached + kMostRows) / kPageSize, kPageSize),
        llama_(model_, cache_, {.max_pass_rows = kMostRows}),
        logits_(llama_, kMostLogits),
        sequence_(llama_.create()) {
    llama_.forward(Segment{sequence_, tokens(kCached), 0}, {});
  }

  // M new tokens: with logits for each, or without any where they are a prefill.
  void pass(int rows) {
    const DeviceRows logits = logits_.rows(0, logits_of(rows));
    llama_.forward(Segment{sequence_, tokens(rows), logits.rows}, logits);
    if (logits.rows > 0) {
      backend_->argmax(logits, std::span(ids_).first(static_cast<std::size_t>(logits.rows)));
    }
    llama_.truncate(sequence_, kCached);
  }

  Work work(int rows) const {
    double weights = static_cast<double>(model_.layer_bytes());
    if (logits_of(rows) > 0) weights += static_cast<double>(model_.head().bytes());
    const auto cached = static_cast<double>(model_.kv_shape().bytes_per_token()) * kCached;
    return {weights + cached, weights * rows};  // two bytes and two operations a weight
  }

 private:
  static int logits_of(int rows) { return rows <= kMostLogits ? rows : 0; }
  std::span<const TokenId> tokens(int count) const {
    return std::span(tokens_).first(static_cast<std::size_t>(count));
  }

  std::unique_ptr<Backend> backend_;
  LlamaModel model_;
  PagedKvCache cache_;
  Llama llama_;
  LogitsBuffer logits_;
  SequenceId sequence_;
  std::vector<TokenId> tokens_ = std::vector<TokenId>(std::max(kCached, kMostRows), 7);
  std::array<std::int32_t, kMostLogits> ids_{};
};

}  // namespace

// Rival: one_row, a pass of one token.
void add_forward_benchmarks(CudaBench& bench) {
  // The model that was asked for last.
  const auto kept = std::make_shared<std::pair<std::string, std::unique_ptr<Decoder>>>();
  for (const std::string shape : {"embedded", "1b", "3b"}) {
    for (const auto& [name, gemm] : {std::pair("invariant", Gemm::kInvariant),
                                     {"mma", Gemm::kTensorCores},
                                     {"cublas", Gemm::kCublas}}) {
      const std::string key = fmt::format("forward/shape:{}/gemm:{}", shape, name);
      add_benchmark(key, {1, 2, 3, 4, 5, 6, 7, 8, 64},
                    [&bench, kept, key, shape, gemm = gemm](benchmark::State& state) {
                      if (kept->first != key) {
                        *kept = {};
                        *kept = {key, std::make_unique<Decoder>(shape, gemm)};
                      }
                      Decoder& decoder = *kept->second;
                      const int rows = static_cast<int>(state.range(0));
                      measure(state, bench, decoder.work(rows), 1, [&](int) { decoder.pass(rows); },
                              {{"one_row", [&](int) { decoder.pass(1); }}});
                    });
    }
  }
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
