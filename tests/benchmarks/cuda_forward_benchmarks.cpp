// Greedy decoding (M = 1), verification of M - 1 drafts and a prefill of 512 tokens by whole
// models: the embedded ones inflated to the shapes of Llama 3.2 1B and 3B, by each of the three
// products, after a short and a long context. What counts is a pass and its argmax, with all that
// passes between host and device.
#include <cstdlib>

#include <fmt/format.h>

#include "common/checkpoint/checkpoint.h"
#include "common/embedded_models.h"
#include "common/inflation/inflated_config.h"
#include "common/inflation/inflated_weights.h"
#include "kernels/cuda_backend.h"
#include "tests/benchmarks/cuda_cases.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

std::unique_ptr<Backend> make_backend(Gemm gemm) {
#ifdef SPECDEC_EMULATED
  return make_emulated_backend(gemm);
#else
  return make_cuda_backend(gemm);
#endif
}

std::unique_ptr<PassModel> load(const std::string& shape, Backend& backend) {
  setenv("SPECDEC_CUDA_GRAPHS", "1", 1);
  const Checkpoint base(shape == "3b" ? embedded_target() : embedded_draft());
  if (shape == "embedded") return std::make_unique<PassModel>(base, backend, 64, 16);
  const InflatedWeights inflated(base, inflated_config(base.config(), shape, "the benchmark"), 0);
  return std::make_unique<PassModel>(inflated, backend, 4096, 512);
}

// A model, and how it computes as graphs and without.
struct Decoder {
  Decoder(const std::string& shape, Gemm gemm)
      : backend(make_backend(gemm)), model(load(shape, *backend)) {
    setenv("SPECDEC_CUDA_GRAPHS", "0", 1);
    one_by_one = model->another();
  }

  void pass(Llama& llama, int rows) {
    model->pass(llama, rows, [this](DeviceRows logits) {
      if (logits.rows == 0) return backend->wait();  // else the pass would wait in a queue
      backend->argmax(logits, std::span(ids).first(static_cast<std::size_t>(logits.rows)));
    });
  }

  std::unique_ptr<Backend> backend;
  std::unique_ptr<PassModel> model;
  std::unique_ptr<Llama> one_by_one;
  std::array<std::int32_t, PassModel::kMostLogits> ids{};
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
    all.push_back({shape, "invariant", Gemm::kInvariant, 64, {1, 2, 4, 6, 8, 16, 512}});
    all.push_back({shape, "invariant", Gemm::kInvariant, 4096, {1, 6}});
    all.push_back({shape, "cublas", Gemm::kCublas, 64, {1, 6, 512}});
  }
  all.push_back({"1b", "plain", Gemm::kPlain, 64, {1, 6, 512}});
  all.push_back({"embedded", "invariant", Gemm::kInvariant, 48, {1, 6}});
  return all;
}

constexpr int kPassesOfASample = 8;  // one after the other, as in decoding

}  // namespace

// Rivals: plain, a pass of one token; one_by_one, the same pass without graphs.
void add_forward_benchmarks(KernelProgram& program) {
  // The model that was asked for last.
  const auto kept = std::make_shared<std::pair<std::string, std::unique_ptr<Decoder>>>();
  for (const Setting& setting : settings()) {
    const std::string name =
        fmt::format("forward/shape:{}/gemm:{}", setting.shape, setting.gemm_name);
    program.add(fmt::format("{}/context:{}", name, setting.context), setting.rows,
                [kept, name, setting](int rows) {
                  if (kept->first != name) {
                    *kept = {};
                    *kept = {name, std::make_unique<Decoder>(setting.shape, setting.gemm)};
                  }
                  Decoder& decoder = *kept->second;
                  PassModel& model = *decoder.model;
                  model.go_to(setting.context);
                  const auto job = [&decoder](Llama& llama, int m) {
                    return [&decoder, &llama, m](int) { decoder.pass(llama, m); };
                  };
                  return Case{model.work(rows),
                              job(model.llama(), rows),
                              {{"plain", job(model.llama(), 1)},
                               {"one_by_one", job(*decoder.one_by_one, rows)}},
                              kPassesOfASample};
                });
  }
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
