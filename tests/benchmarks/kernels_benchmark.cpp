// Each operation of the CPU backend against the machine's two ceilings, bytes a second and
// operations a second, which are measured around every sample. M is the number of rows: 1 is
// decoding, up to 16 verification, 64 and 512 prefill. Speculation lives on T(M) / T(1) being close
// to 1.
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

#include "tests/benchmarks/by_turns.h"
#include "tests/benchmarks/ideal_product.h"
#include "tests/benchmarks/steady_samples.h"

namespace specdec {
namespace {

// Matrices of a transformer with d_model 2048 and d_ff 8192, and the activations before and after
// them. A run takes some of them, and the next run the next ones.
constexpr int kWidth = 2048, kOutputs = 16'384, kMatricesOfARun = 4;
constexpr int kMostRows = 512;

std::vector<std::uint16_t> random_halves(std::size_t count) {  // around 1/32 as bf16, 1 as f16
  std::vector<std::uint16_t> values(count);
  std::uint32_t state = 1;
  for (std::uint16_t& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<std::uint16_t>(0x3d00u | (state >> 24) | (state >> 16 & 0x8000u));
  }
  return values;
}

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

void matmul(benchmark::State& state, Machine& machine, Matrices& matrices) {
  const int rows = static_cast<int>(state.range(0));
  measure(
      state, machine, matrices.work(rows), [&] { matrices.multiply(1); },
      [&] { matrices.multiply(rows); });
}

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

void attention(benchmark::State& state, Machine& machine, AttentionCase& attention) {
  const int rows = static_cast<int>(state.range(0));
  measure(
      state, machine, attention.work(rows), [&] { attention.run(1); },
      [&] { attention.run(rows); });
}

void ideal(benchmark::State& state, Machine& machine, IdealProduct& product) {
  const int rows = static_cast<int>(state.range(0));
  const double bytes = 2.0 * product.weights();
  measure(
      state, machine, {.bytes = bytes, .flops = bytes * rows}, [&] { product.multiply(1); },
      [&] { product.multiply(rows); });
}

// What benchmarks work on, made when it is first asked for and kept: they take turns.
class Cases {
 public:
  Cases(Backend& backend, int threads) : backend_(backend), threads_(threads) {}

  Matrices& matrices(const MatrixType& type) {
    return matrices_.try_emplace(type.name, backend_, type, kOutputs, kWidth, kMatricesOfARun)
        .first->second;
  }
  // The head of Llama 3.2: 128,256 outputs.
  Matrices& head() {
    return matrices_.try_emplace("head", backend_, kTypes[0], 128'256, kWidth, 1).first->second;
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

// The operations between products work on what the caches hold: their share of the memory's
// bandwidth says how little they matter. bytes: what they read and write a row.
class Rows {
 public:
  explicit Rows(Backend& backend, int width) : backend_(backend), width_(width) {
    for (auto* rows : {&a_, &b_, &out_}) {
      *rows = DeviceArray<float>(backend, std::size_t{16} * static_cast<std::size_t>(width));
      backend.fill(matrix(*rows, 16, width), 0.25f);
    }
  }
  DeviceRows a(int rows) const { return matrix(a_, rows, width_); }
  DeviceRows b(int rows) const { return matrix(b_, rows, width_); }
  DeviceRows out(int rows) const { return matrix(out_, rows, width_); }
  Backend& backend() const { return backend_; }
  Work work(int rows, int passes) const { return {4.0 * passes * rows * width_, 0.0}; }

 private:
  Backend& backend_;
  int width_;
  DeviceArray<float> a_, b_, out_;
};

template <typename Operation>
void row_operation(benchmark::State& state, Machine& machine, Backend& backend, int width,
                   int passes, const Operation& operation) {
  const Rows data(backend, width);
  const int rows = static_cast<int>(state.range(0));
  backend.begin_burst();
  measure(
      state, machine, data.work(rows, passes), [&] { operation(data, 1); },
      [&] { operation(data, rows); });
  backend.end_burst();
}

void register_benchmarks(Machine& machine, Backend& backend, Cases& cases, int samples) {
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& rows,
                       auto function) {
    auto* benchmark = benchmark::RegisterBenchmark(name.c_str(), function);
    for (const std::int64_t m : rows) benchmark->Arg(m);
    benchmark->ArgName("M")->Iterations(samples)->UseManualTime()->Unit(benchmark::kMillisecond);
  };
  std::vector<std::int64_t> up_to_16(16);
  std::iota(up_to_16.begin(), up_to_16.end(), 1);
  for (const MatrixType& t : kTypes) {
    add(std::string("matmul/") + t.name, up_to_16,
        [&](benchmark::State& state) { matmul(state, machine, cases.matrices(t)); });
  }
  add("matmul/ideal", up_to_16,
      [&](benchmark::State& state) { ideal(state, machine, cases.ideal()); });
  add("prefill/bf16", {64, 512},
      [&](benchmark::State& state) { matmul(state, machine, cases.matrices(kTypes[0])); });
  add("head/bf16", {1, 6}, [&](benchmark::State& state) { matmul(state, machine, cases.head()); });
  const std::vector<std::int64_t> one_and_six = {1, 6};
  const std::pair<std::string, HeadShape> heads_of_models[] = {
      {"1b", {32, 8, 64}}, {"3b", {24, 8, 128}}, {"134m", {6, 2, 128}}};
  for (const auto& [model, heads] : heads_of_models) {
    add("attention/4096/" + model, {1, 2, 4, 6, 8, 16},
        [&machine, &cases, model = model, heads = heads](benchmark::State& state) {
          attention(state, machine, cases.attention(model, heads));
        });
  }
  const auto add_rows = [&](const char* name, int width, int passes, auto operation) {
    add(name, one_and_six, [&, width, passes, operation](benchmark::State& state) {
      row_operation(state, machine, backend, width, passes, operation);
    });
  };
  add_rows("rms_norm/2048", 2048, 3, [](const Rows& data, int m) {
    data.backend().rms_norm(data.a(m), data.b(1).data, 1e-5f, data.out(m));
  });
  add_rows("add/2048", 2048, 3,
           [](const Rows& data, int m) { data.backend().add(data.a(m), data.b(m)); });
  add_rows("silu_mul/8192", 8192, 3, [](const Rows& data, int m) {
    data.backend().silu_mul(data.a(m), data.b(m), data.out(m));
  });
  add_rows("rope/2048", 2048, 2, [](const Rows& data, int m) {
    const DeviceRows angles{data.b(m).data, m, 32, 2048};
    data.backend().rope(data.a(m), angles, angles);
  });
  add_rows("argmax/128256", 128'256, 1, [](const Rows& data, int m) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(m));
    data.backend().argmax(data.a(m), ids);
  });
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  const bool by_turns = specdec::take_by_turns(argc, argv);
  const int threads = specdec::take_number(argc, argv, "--threads", 0);
  const int samples = specdec::take_number(argc, argv, "--samples", 15);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  specdec::Machine machine(threads);
  const auto backend = specdec::make_cpu_backend(threads);
  specdec::Cases cases(*backend, threads);
  specdec::register_benchmarks(machine, *backend, cases, std::max(samples, 1));
  return specdec::run_registered(by_turns, backend->name());
}
