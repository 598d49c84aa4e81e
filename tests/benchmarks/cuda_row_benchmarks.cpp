// What every layer does row by row, at the widths of Llama 3.2 1B and 3B.
#include <numeric>

#include <fmt/format.h>

#include "kernels/cuda/rms_norm/rms_norm.h"
#include "kernels/cuda/rope.h"
#include "kernels/cuda/rows.h"
#include "tests/benchmarks/cuda_cases.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

struct Shape {
  const char* name;
  int d_model, d_ff;
  HeadShape heads;

  int kv_width() const { return heads.n_kv_heads * heads.head_dim; }
};
constexpr Shape kShapes[] = {{"1b", 2048, 8192, kHeads1b}, {"3b", 3072, 8192, kHeads3b}};

// For each copy four matrices [rows, width], and what all copies share.
class Rows {
 public:
  Rows(Backend& backend, int rows, int width)
      : rows_(rows), width_(width), copies_(copies_of(4 * size() * sizeof(float))) {
    for (auto& values : values_) {
      values = random_floats(backend, static_cast<std::size_t>(copies_) * size());
    }
    weight_ = random_floats(backend, static_cast<std::size_t>(width));
    std::vector<std::int32_t> indices(static_cast<std::size_t>(rows));
    std::iota(indices.begin(), indices.end(), 0);
    indices_ = on_device(backend, indices);
  }

  int copies() const { return copies_; }
  DeviceRows a(int copy) const { return at(0, copy); }
  DeviceRows b(int copy) const { return at(1, copy); }
  DeviceRows c(int copy) const { return at(2, copy); }
  DeviceRows out(int copy) const { return at(3, copy); }
  const float* weight() const { return weight_.data(); }  // [width]
  RowPlaces places() const {
    return {.positions = indices_.data(), .slots = indices_.data(), .context = rows_};
  }

 private:
  std::size_t size() const {
    return static_cast<std::size_t>(rows_) * static_cast<std::size_t>(width_);
  }
  DeviceRows at(std::size_t i, int copy) const {
    return {values_[i].data() + static_cast<std::size_t>(copy) * size(), rows_, width_, width_};
  }

  int rows_, width_, copies_;
  std::array<DeviceArray<float>, 4> values_;
  DeviceArray<float> weight_;
  DeviceArray<std::int32_t> indices_;  // 0, 1, ... rows - 1
};

struct Kernel {
  const char* name;
  const char* step;
  int width, floats;  // floats: read and written for a row
  std::function<void(const Rows& rows, int copy)> call;
};

std::vector<Kernel> kernels_of(const Shape& shape) {
  const int half = shape.heads.head_dim / 2, kv = shape.kv_width(), width = shape.d_model;
  const auto norm = [](auto* kernel) {
    return [kernel](const Rows& rows, int i) {
      kernel(rows.a(i), rows.weight(), 1e-5f, rows.out(i), nullptr);
    };
  };
  const auto add_norm = [](auto* kernel) {
    return [kernel](const Rows& rows, int i) {
      kernel(rows.a(i), rows.b(i), rows.weight(), 1e-5f, rows.out(i), nullptr);
    };
  };
  const auto silu = [](const Rows& rows, int i) {
    silu_mul(rows.a(i), rows.b(i), rows.out(i), nullptr);
  };
  // q, k and v of d_model and twice kv_width inputs; the cache is in c and out.
  const auto rope = [=](const Rows& rows, int i) {
    const DeviceRows k = rows.b(i).columns(0, kv), v = rows.b(i).columns(kv, kv);
    const DeviceRows cosines = rows.c(i).columns(kv, half);
    rope_store_kv(rows.a(i), k, v, cosines, cosines, rows.places(),
                  {rows.out(i).data, rows.c(i).data}, nullptr);
  };
  return {{"rms_norm", "1_naive", width, 2 * width, norm(rms_norm_naive)},
          {"rms_norm", "2_block", width, 2 * width, norm(rms_norm_block)},
          {"rms_norm", "3_vector", width, 2 * width, norm(rms_norm_vector)},
          {"rms_norm", "engine", width, 2 * width, norm(rms_norm)},
          {"add_rms_norm", "3_vector", width, 4 * width, add_norm(add_rms_norm_vector)},
          {"add_rms_norm", "engine", width, 4 * width, add_norm(add_rms_norm)},
          {"silu_mul", "engine", shape.d_ff, 3 * shape.d_ff, silu},
          {"rope_store_kv", "engine", width, 2 * width + 5 * kv + 2 * half, rope}};
}

}  // namespace

void add_row_benchmarks(KernelProgram& program, Backend& backend) {
  for (const Shape& shape : kShapes) {
    for (const Kernel& kernel : kernels_of(shape)) {
      const auto make = [&backend, kernel](int m) {
        const auto rows = std::make_shared<Rows>(backend, m, kernel.width);
        return Case{{4.0 * kernel.floats * m, 0},
                    [rows, call = kernel.call](int copy) { call(*rows, copy); },
                    {},
                    rows->copies()};
      };
      program.add(fmt::format("{}/shape:{}/width:{}/step:{}", kernel.name, shape.name, kernel.width,
                              kernel.step),
                  {1, 6, 16, 512}, make);
    }
  }
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
