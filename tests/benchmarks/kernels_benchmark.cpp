// The products and the attention of the CPU backend against the machine's two ceilings, bytes a
// second and operations a second, which are measured around every sample. M is the number of rows:
// 1 is decoding, up to 16 verification, 64 and 512 prefill. Speculation lives on T(M) / T(1) being
// close to 1.
//
//   kernels_benchmark [--threads=N] [--samples=N] [--by-turns]
//                     [Google Benchmark's options]
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/benchmarks/cases.h"
#include "tests/benchmarks/ideal_product.h"

namespace specdec {
namespace {

// Matrices of a transformer with d_model 2048 and d_ff 8192, and the activations before and after
// them. A run takes some of them, and the next run the next ones.
constexpr int kWidth = 2048, kOutputs = 16'384, kMatricesOfARun = 4;
constexpr int kMostRows = 512;
constexpr std::int64_t kWeights = std::int64_t{kMatricesOfARun} * kOutputs * kWidth;

struct MatrixType {
  const char* name;
  WeightType type;
  WeightFormat format = WeightFormat::kStored;
};
constexpr MatrixType kTypes[] = {{"bf16", WeightType::kBF16},
                                 {"f16", WeightType::kF16},
                                 {"f32", WeightType::kF32},
                                 {"int8", WeightType::kBF16, WeightFormat::kInt8},
                                 {"q4", WeightType::kBF16, WeightFormat::kQ4}};

class Matrices {
 public:
  Matrices(Backend& backend, const MatrixType& from)
      : backend_(backend),
        input_(backend, std::size_t{kMostRows} * kWidth),
        output_(backend, std::size_t{kMostRows} * kOutputs) {
    const int halves = from.type == WeightType::kF32 ? 2 : 1;
    const auto values = random_halves(std::size_t{kOutputs} * kWidth * std::size_t(halves));
    const HostMatrix host{from.type, std::as_bytes(std::span(values)), kOutputs, kWidth};
    do {
      weights_.push_back(backend.load_matrix({&host, 1}, from.format));
    } while (static_cast<int>(weights_.size()) < std::max(kMatricesOfARun, beyond_caches(bytes())));
    backend.fill(matrix(input_, kMostRows, kWidth), 0.5f);
    backend.fill(matrix(output_, kMostRows, kOutputs), 0.0f);
  }

  void run(int rows) {
    backend_.begin_burst();
    for (int i = 0; i < kMatricesOfARun; ++i) {
      backend_.matmul(matrix(input_, rows, kWidth), *weights_[next_++ % weights_.size()],
                      matrix(output_, rows, kOutputs));
    }
    backend_.end_burst();
  }

  Work work(int rows) const {
    return {kMatricesOfARun * bytes(), kMatricesOfARun * 2.0 * rows * kOutputs * kWidth};
  }

 private:
  double bytes() const { return static_cast<double>(weights_[0]->bytes()); }

  Backend& backend_;
  std::vector<std::unique_ptr<const WeightMatrix>> weights_;
  std::size_t next_ = 0;
  DeviceArray<float> input_, output_;
};

// Heads at the end of a sequence of 4,096 tokens. A run takes some layers, and the next run the
// next ones.
class Attention {
 public:
  Attention(Backend& backend, const HeadShape& heads)
      : backend_(backend),
        inputs_(backend, heads, kCached, kMostRows, std::max(kLayersOfARun, layers(heads))) {}

  void run(int rows) {
    backend_.begin_burst();
    for (int i = 0; i < kLayersOfARun; ++i) {
      backend_.attention(inputs_.q(rows), inputs_.layer(next_++ % inputs_.layers()),
                         inputs_.places(rows), inputs_.heads(), inputs_.out(rows));
    }
    backend_.end_burst();
  }

  Work work(int rows) const {
    const Work of_a_layer = inputs_.work(rows);
    return {kLayersOfARun * of_a_layer.bytes, kLayersOfARun * of_a_layer.flops};
  }

 private:
  static constexpr int kCached = 4096, kLayersOfARun = 4;

  static int layers(const HeadShape& heads) {
    return beyond_caches(8.0 * kCached * heads.n_kv_heads * heads.head_dim);
  }

  Backend& backend_;
  AttentionInputs inputs_;
  int next_ = 0;
};

// What benchmarks work on, made when it is first asked for and kept: they take turns.
template <typename Make>
auto later(const Make& make) {
  return [ make, kept = std::make_shared<decltype(make())>() ]() -> auto& {
    if (!*kept) *kept = make();
    return **kept;
  };
}

// Rival: plain, the same with one row.
template <typename Inputs>
void add(KernelProgram& program, const std::string& name, const std::vector<std::int64_t>& rows,
         const Inputs& inputs) {
  program.add(name, rows, [inputs](int m) {
    const auto run = [inputs](int count) { return [inputs, count](int) { inputs().run(count); }; };
    return Case{inputs().work(m), run(m), {{"plain", run(1)}}};
  });
}

void add_all(KernelProgram& program, Backend& backend) {
  std::vector<std::int64_t> up_to_16(16);
  std::iota(up_to_16.begin(), up_to_16.end(), 1);
  for (const MatrixType& type : kTypes) {
    const auto matrices = later([&] { return std::make_unique<Matrices>(backend, type); });
    add(program, std::string("matmul/") + type.name, up_to_16, matrices);
    if (&type == kTypes) add(program, "prefill/bf16", {64, 512}, matrices);
  }
  const int threads = program.threads();
  add(program, "matmul/ideal", up_to_16, later([&backend, threads] {
        return std::make_unique<IdealProduct>(backend, threads, kWeights);
      }));
  const std::pair<std::string, HeadShape> heads_of_models[] = {
      {"1b", kHeads1b}, {"3b", kHeads3b}, {"134m", {6, 2, 128}}};
  for (const auto& [model, heads] : heads_of_models) {
    add(program, "attention/4096/" + model, {1, 2, 4, 6, 8, 16},
        later([&backend, heads = heads] { return std::make_unique<Attention>(backend, heads); }));
  }
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  specdec::KernelProgram program(argc, argv, 15);
  const auto backend = specdec::make_cpu_backend(program.threads());
  specdec::add_all(program, *backend);
  specdec::CpuMachine machine(program.threads());
  return program.run(machine, {{"backend", backend->name()}});
}
