// Greedy decoding (M = 1), verification of M - 1 drafts and a prefill of 512 tokens by whole
// models: the embedded ones inflated to the shapes of Llama 3.2 1B and 3B, by each of the three
// products, behind a short and a long context. What counts is a pass and its argmax, with all that
// passes between host and device.
#include <cstdlib>
#include <memory>

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

constexpr int kMostLogits = 8, kPageSize = 16;

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

// A model with one sequence, and passes behind any context of it.
class Decoder {
 public:
  Decoder(const std::string& shape, Gemm gemm)
      : backend_(make_backend(gemm)),
        model_(load(shape, *backend_)),
        most_rows_(shape == "embedded" ? 16 : 512),
        positions_((shape == "embedded" ? 64 : 4096) + most_rows_),
        tokens_(static_cast<std::size_t>(positions_), 7),
        cache_(*backend_, model_.kv_shape(), positions_ / kPageSize, kPageSize),
        as_graphs_(make_llama("1")),
        one_by_one_(make_llama("0")),
        logits_(*as_graphs_, kMostLogits),
        sequence_(cache_.create()) {}

  // How many launches there are is all that differs.
  Llama& as_graphs() { return *as_graphs_; }
  Llama& one_by_one() { return *one_by_one_; }

  // Leaves so many tokens in the cache.
  void go_to(int context) {
    const int cached = cache_.length(sequence_);
    if (context < cached) cache_.truncate(sequence_, context);
    if (context > cached) {
      one_by_one_->forward(Segment{sequence_, tokens(context - cached), 0}, {});
    }
  }

  // M new tokens: with logits for each, or without any where they are a prefill.
  void pass(Llama& llama, int rows) {
    const int context = llama.length(sequence_);
    const DeviceRows logits = logits_.rows(0, logits_of(rows));
    llama.forward(Segment{sequence_, tokens(rows), logits.rows}, logits);
    if (logits.rows > 0) {
      backend_->argmax(logits, std::span(ids_).first(static_cast<std::size_t>(logits.rows)));
    } else {
      backend_->wait();  // else the pass would wait in the backend's queue
    }
    llama.truncate(sequence_, context);
  }

  Work work(int rows, int context) const {
    double weights = static_cast<double>(model_.layer_bytes());
    if (logits_of(rows) > 0) weights += static_cast<double>(model_.head().bytes());
    const auto cached = static_cast<double>(model_.kv_shape().bytes_per_token()) * context;
    return {weights + cached, weights * rows};  // two bytes and two operations a weight
  }

 private:
  static int logits_of(int rows) { return rows <= kMostLogits ? rows : 0; }
  std::span<const TokenId> tokens(int count) const {
    return std::span(tokens_).first(static_cast<std::size_t>(count));
  }
  std::unique_ptr<Llama> make_llama(const char* graphs) {
    setenv("SPECDEC_CUDA_GRAPHS", graphs, 1);
    return std::make_unique<Llama>(model_, cache_, LlamaOptions{.max_pass_rows = most_rows_});
  }

  std::unique_ptr<Backend> backend_;
  LlamaModel model_;
  int most_rows_, positions_;
  std::vector<TokenId> tokens_;
  PagedKvCache cache_;
  std::unique_ptr<Llama> as_graphs_, one_by_one_;
  LogitsBuffer logits_;
  SequenceId sequence_;
  std::array<std::int32_t, kMostLogits> ids_{};
};

struct Setting {
  std::string shape;
  const char* gemm_name;
  Gemm gemm;
  int context;
  std::vector<std::int64_t> rows;
};

// What matters most comes first, and a model is loaded once.
std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const char* shape : {"3b", "1b"}) {
    all.push_back({shape, "invariant", Gemm::kInvariant, 64, {1, 2, 4, 6, 8, 512}});
    all.push_back({shape, "invariant", Gemm::kInvariant, 4096, {1, 6}});
    all.push_back({shape, "cublas", Gemm::kCublas, 64, {1, 6, 512}});
  }
  all.push_back({"1b", "plain", Gemm::kPlain, 64, {1, 6, 512}});
  all.push_back({"embedded", "invariant", Gemm::kInvariant, 48, {1, 6}});
  return all;
}

constexpr int kPassesOfASample = 8;  // one behind the other, as in decoding

}  // namespace

// Rivals: one_row, a pass of one token; one_by_one, the same pass without graphs.
void add_forward_benchmarks(CudaBench& bench) {
  // The model that was asked for last.
  const auto kept = std::make_shared<std::pair<std::string, std::unique_ptr<Decoder>>>();
  for (const Setting& setting : settings()) {
    const std::string model =
        fmt::format("forward/shape:{}/gemm:{}", setting.shape, setting.gemm_name);
    add_benchmark(fmt::format("{}/context:{}", model, setting.context), setting.rows,
                  [&bench, kept, model, setting](benchmark::State& state) {
                    if (kept->first != model) {
                      *kept = {};
                      *kept = {model, std::make_unique<Decoder>(setting.shape, setting.gemm)};
                    }
                    Decoder& decoder = *kept->second;
                    decoder.go_to(setting.context);
                    const int rows = static_cast<int>(state.range(0));
                    const auto job = [&decoder](Llama& llama, int m) {
                      return [&decoder, &llama, m](int) { decoder.pass(llama, m); };
                    };
                    measure(state, bench, decoder.work(rows, setting.context), kPassesOfASample,
                            job(decoder.as_graphs(), rows),
                            {{"one_row", job(decoder.as_graphs(), 1)},
                             {"one_by_one", job(decoder.one_by_one(), rows)}});
                  });
  }
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
