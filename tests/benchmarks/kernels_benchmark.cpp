// The products and the attention of the CPU backend against the machine's two ceilings, bytes a
// second and operations a second, which are measured around every sample. M is the number of rows:
// 1 is decoding, up to 16 verification, 64 and 512 prefill. Speculation lives on T(M) / T(1) being
// close to 1.
//
//   kernels_benchmark [--threads=N] [--samples=N] [--by-turns]
//                     [Google Benchmark's options]
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "tests/benchmarks/ideal_product.h"
#include "tests/benchmarks/steady_samples.h"

namespace specdec {
namespace {

// Matrices of a transformer with d_model 2048 and d_ff 8192, and the activations before and after
// them. A run takes some of them, and the next run the next ones.
constexpr int kWidth = 2048, kOutputs = 16'384, kMatricesOfARun = 4;
constexpr int kMostRows = 512;

struct MatrixType {
  const char* name;
  WeightType type;
  WeightFormat format = WeightFormat::kStored;
};
constexpr MatrixType kTypes[] = {{"bf16", WeightType::kBF16},
                                 {"f16", WeightType::kF16},
                                 {"f32", WeightType::kF32},
                                 {"int8", WeightType::kBF16, WeightFormat::kInt8}};

class Matrices {
 public:
  Matrices(Backend& backend, const MatrixType& from, int rows, int width, int of_a_run)
      : backend_(backend), of_a_run_(static_cast<std::size_t>(of_a_run)) {
    const std::size_t elements = static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
    const std::size_t halves = from.type == WeightType::kF32 ? 2 * elements : elements;
    const auto values = random_halves(halves);
    const HostMatrix host{from.type, std::as_bytes(std::span(values)), rows, width};
    do {
      weights_.push_back(backend.load_matrix({&host, 1}, from.format));
    } while (static_cast<int>(weights_.size()) <
             std::max(of_a_run, beyond_caches(static_cast<double>(weights_[0]->bytes()))));
    input_ = DeviceArray<float>(backend, std::size_t{kMostRows} * static_cast<std::size_t>(width));
    output_ = DeviceArray<float>(backend, std::size_t{kMostRows} * static_cast<std::size_t>(rows));
    backend.fill(matrix(input_, kMostRows, width), 0.5f);
    backend.fill(matrix(output_, kMostRows, rows), 0.0f);
  }

  void multiply(int rows) {
    backend_.begin_burst();
    for (std::size_t i = 0; i < of_a_run_; ++i) {
      const auto& weight = weights_[next_++ % weights_.size()];
      backend_.matmul(matrix(input_, rows, weight->width()), *weight,
                      matrix(output_, rows, weight->rows()));
    }
    backend_.end_burst();
  }

  Work work(int rows) const {
    const double count = static_cast<double>(of_a_run_);
    const auto& weight = weights_[0];
    return {count * static_cast<double>(weight->bytes()),
            count * 2.0 * rows * weight->rows() * weight->width()};
  }

 private:
  Backend& backend_;
  std::size_t of_a_run_, next_ = 0;
  std::vector<std::unique_ptr<const WeightMatrix>> weights_;
  DeviceArray<float> input_, output_;
};

// Llama 3.2 1B's heads: 32 query heads, 8 key and value heads of 64; or the 3B's, 24 and 8 of 128.
// The rows stand at the end of one sequence of 4,096 tokens, in pages of 16 that lie in no order.
// A run takes some layers, and the next run the next ones.
class AttentionCase {
 public:
  static constexpr int kCached = 4096, kPageSize = 16, kLayersOfARun = 4;

  AttentionCase(Backend& backend, const HeadShape& heads)
      : backend_(backend),
        heads_(heads),
        layer_floats_(std::size_t{kCached + kMostRows} *
                      static_cast<std::size_t>(heads.n_kv_heads * heads.head_dim)),
        layers_(std::max(kLayersOfARun, beyond_caches(8.0 * static_cast<double>(layer_floats_)))),
        cache_(backend, 2 * static_cast<std::size_t>(layers_) * layer_floats_),
        q_(backend, std::size_t{kMostRows} * static_cast<std::size_t>(width())),
        out_(backend, std::size_t{kMostRows} * static_cast<std::size_t>(width())) {
    std::uint32_t random = 1;
    for (std::size_t i = 0; i < cache_.size(); ++i) {
      random = random * 1664525u + 1013904223u;
      cache_.data()[i] = static_cast<float>(static_cast<std::int32_t>(random)) * 0x1p-31f;
    }
    backend.fill(matrix(q_, kMostRows, width()), 0.1f);
    constexpr int kPages = (kCached + kMostRows) / kPageSize;
    for (int page = 0; page < kPages; ++page) pages_.push_back(page * 5 % kPages);
  }

  void run(int rows) {
    std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
    std::iota(positions.begin(), positions.end(), kCached - rows);
    const std::vector<std::int32_t> zeros(static_cast<std::size_t>(rows), 0);
    RowPlaces places;
    places.positions = positions.data();
    places.slots = zeros.data();
    places.table_starts = zeros.data();
    places.page_tables = pages_.data();
    places.page_size = kPageSize;
    backend_.begin_burst();
    for (int i = 0; i < kLayersOfARun; ++i) {
      const auto layer = static_cast<std::size_t>(next_++ % layers_);
      float* keys = cache_.data() + 2 * layer * layer_floats_;
      backend_.attention(matrix(q_, rows, width()), {keys, keys + layer_floats_}, places, heads_,
                         matrix(out_, rows, width()));
    }
    backend_.end_burst();
  }

  Work work(int rows) const {
    const double kv_floats = 2.0 * heads_.n_kv_heads * heads_.head_dim * kCached;
    return {.bytes = kLayersOfARun * kv_floats * sizeof(float),
            .flops = kLayersOfARun * 4.0 * width() * kCached * rows};
  }

 private:
  int width() const { return heads_.n_heads * heads_.head_dim; }

  Backend& backend_;
  HeadShape heads_;
  std::size_t layer_floats_;
  int layers_, next_ = 0;
  DeviceArray<float> cache_, q_, out_;
  std::vector<std::int32_t> pages_;
};

// What benchmarks work on, made when it is first asked for and kept: they take turns.
class Cases {
 public:
  Cases(Backend& backend, int threads) : backend_(backend), threads_(threads) {}

  Matrices& matrices(const MatrixType& type) {
    return matrices_.try_emplace(type.name, backend_, type, kOutputs, kWidth, kMatricesOfARun)
        .first->second;
  }
  IdealProduct& ideal() {  // of as many weights as the matrices have
    constexpr std::int64_t kWeights = std::int64_t{kMatricesOfARun} * kOutputs * kWidth;
    if (!ideal_) ideal_.emplace(backend_, threads_, kWeights);
    return *ideal_;
  }
  AttentionCase& attention(const std::string& model, const HeadShape& heads) {
    return attention_.try_emplace(model, backend_, heads).first->second;
  }

 private:
  Backend& backend_;
  int threads_;
  std::map<std::string, Matrices> matrices_;
  std::optional<IdealProduct> ideal_;
  std::map<std::string, AttentionCase> attention_;
};

void add_all(KernelProgram& program, Cases& cases) {
  std::vector<std::int64_t> up_to_16(16);
  std::iota(up_to_16.begin(), up_to_16.end(), 1);
  const auto add_product = [&](const std::string& name, const std::vector<std::int64_t>& rows,
                               const MatrixType* type) {
    program.add(
        name, rows, [&cases, type](int m) { return cases.matrices(*type).work(m); },
        [&cases, type](int m) { cases.matrices(*type).multiply(m); });
  };
  for (const MatrixType& type : kTypes) {
    add_product(std::string("matmul/") + type.name, up_to_16, &type);
  }
  program.add(
      "matmul/ideal", up_to_16,
      [&cases](int m) {
        const double bytes = 2.0 * cases.ideal().weights();
        return Work{.bytes = bytes, .flops = bytes * m};
      },
      [&cases](int m) { cases.ideal().multiply(m); });
  add_product("prefill/bf16", {64, 512}, kTypes);
  const std::pair<std::string, HeadShape> heads_of_models[] = {
      {"1b", {32, 8, 64}}, {"3b", {24, 8, 128}}, {"134m", {6, 2, 128}}};
  for (const auto& [model, heads] : heads_of_models) {
    const auto attention = [&cases, model = model, heads = heads]() -> AttentionCase& {
      return cases.attention(model, heads);
    };
    program.add(
        "attention/4096/" + model, {1, 2, 4, 6, 8, 16},
        [attention](int m) { return attention().work(m); },
        [attention](int m) { attention().run(m); });
  }
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  specdec::KernelProgram program(argc, argv, 15);
  const auto backend = specdec::make_cpu_backend(program.threads());
  specdec::Cases cases(*backend, program.threads());
  specdec::add_all(program, cases);
  return program.run(backend->name());
}
