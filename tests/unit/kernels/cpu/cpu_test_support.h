#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/quantize.h"

namespace specdec {

// Random numbers that are the same with every standard library.
class TestNumbers {
 public:
  explicit TestNumbers(std::uint32_t seed) : engine_(seed) {}

  std::uint32_t bits() { return static_cast<std::uint32_t>(engine_()); }
  int below(int end) { return static_cast<int>(bits() % static_cast<std::uint32_t>(end)); }
  int between(int first, int last) { return first + below(last - first + 1); }
  // In (-1, 1), never 0.
  float number() { return (static_cast<float>(bits() >> 9) - 4194303.5f) / 4194304.0f; }

  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[static_cast<std::size_t>(below(static_cast<int>(i)))]);
    }
  }

 private:
  std::mt19937 engine_;
};

// A matrix with gaps of `gap` floats between its rows. The gaps hold a mark that no operation may
// touch.
class TestRows {
 public:
  static constexpr float kMark = -12345.75f;

  TestRows(int rows, int width, int gap = 0)
      : rows_(rows), width_(width), stride_(width + gap), values_(size(), kMark) {}

  static TestRows random(TestNumbers& numbers, int rows, int width, int gap = 0) {
    TestRows matrix(rows, width, gap);
    for (int r = 0; r < rows; ++r) {
      for (int i = 0; i < width; ++i) matrix.row(r)[i] = numbers.number();
    }
    return matrix;
  }

  DeviceRows view() { return {values_.data(), rows_, width_, stride_}; }
  ConstDeviceRows view() const { return {values_.data(), rows_, width_, stride_}; }
  float* row(int r) { return view().row(r); }
  const float* row(int r) const { return view().row(r); }
  int rows() const { return rows_; }
  int width() const { return width_; }

  bool gaps_untouched() const {
    for (int r = 0; r < rows_; ++r) {
      for (std::ptrdiff_t i = width_; i < stride_; ++i) {
        if (row(r)[i] != kMark) return false;
      }
    }
    return true;
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(rows_ * stride_); }

  int rows_, width_;
  std::ptrdiff_t stride_;
  std::vector<float> values_;
};

// The same number: equal bits, or both NaN (whose payload depends on the order of operands).
inline bool same_number(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

inline ::testing::AssertionResult same_rows(ConstDeviceRows got, ConstDeviceRows want) {
  if (got.rows != want.rows || got.width != want.width) {
    return ::testing::AssertionFailure() << "shapes differ";
  }
  for (int r = 0; r < got.rows; ++r) {
    for (int i = 0; i < got.width; ++i) {
      if (!same_number(got.row(r)[i], want.row(r)[i])) {
        return ::testing::AssertionFailure()
               << fmt::format("row {} column {}: got {:a} ({}), want {:a} ({})", r, i,
                              got.row(r)[i], got.row(r)[i], want.row(r)[i], want.row(r)[i]);
      }
    }
  }
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult same_rows(const TestRows& got, const TestRows& want) {
  if (!got.gaps_untouched()) return ::testing::AssertionFailure() << "wrote between the rows";
  return same_rows(got.view(), want.view());
}

inline Backend& plain_backend() {
  static const std::unique_ptr<Backend> backend = make_plain_backend();
  return *backend;
}

// The fast backend with 1 to 3 threads.
inline Backend& fast_backend(int threads) {
  static const std::unique_ptr<Backend> backends[] = {make_cpu_backend(1), make_cpu_backend(2),
                                                      make_cpu_backend(3)};
  return *backends[threads - 1];
}

// The smallest width from `width` on that a row of this type can have: kQ8 has whole groups only.
constexpr int width_for(WeightType type, int width) {
  return type == WeightType::kQ8 ? cpu::groups_of(width) * kGroupElements : width;
}

// Groups as a file holds them.
inline std::vector<cpu::Q8Group> random_groups(TestNumbers& numbers, std::size_t count) {
  std::vector<cpu::Q8Group> groups(count);
  for (cpu::Q8Group& group : groups) {
    group.scale = cpu::f16_from_float(numbers.number());
    for (std::int8_t& q : group.q) q = static_cast<std::int8_t>(numbers.bits());
  }
  return groups;
}

// A weight matrix as a checkpoint stores it, at an odd address. Only random() makes kQ8; set() is
// for single elements.
class TestWeights {
 public:
  // Values of all magnitudes down to subnormal ones, but none that make a product overflow.
  // REQUIRES: width == width_for(type, width).
  static TestWeights random(TestNumbers& numbers, WeightType type, int rows, int width) {
    TestWeights weights(type, rows, width);
    if (type == WeightType::kQ8) {
      const auto groups = random_groups(numbers, weights.size() / sizeof(cpu::Q8Group));
      std::memcpy(weights.bytes_.data() + 1, groups.data(), weights.size());
    } else {
      for (int i = 0; i < rows * width; ++i) weights.set(i, random_bits(numbers, type));
    }
    return weights;
  }

  TestWeights(WeightType type, int rows, int width)
      : type_(type), rows_(rows), width_(width), bytes_(size() + 1) {}

  void set(int index, std::uint32_t bits) {
    const std::size_t size = element_size();
    std::memcpy(bytes_.data() + 1 + static_cast<std::size_t>(index) * size, &bits, size);
  }
  float at(int row, int k) const {
    std::uint32_t bits = 0;
    const std::size_t size = element_size();
    std::memcpy(&bits, bytes_.data() + 1 + static_cast<std::size_t>(row * width_ + k) * size, size);
    if (type_ == WeightType::kF32) return std::bit_cast<float>(bits);
    const auto half = static_cast<std::uint16_t>(bits);
    return type_ == WeightType::kBF16 ? cpu::float_from_bf16(half) : cpu::float_from_f16(half);
  }
  HostMatrix host() const { return {type_, std::span(bytes_).subspan(1), rows_, width_}; }
  int rows() const { return rows_; }

 private:
  static std::uint32_t random_bits(TestNumbers& numbers, WeightType type) {
    if (type == WeightType::kF16) return numbers.bits() & 0xcfffu;  // below 4, or subnormal
    const std::uint32_t number = std::bit_cast<std::uint32_t>(numbers.number());
    const std::uint32_t tiny = numbers.bits() & 0x807fffffu;
    const std::uint32_t bits = numbers.below(16) == 0 ? tiny : number;
    return type == WeightType::kBF16 ? bits >> 16 : bits;
  }
  std::size_t element_size() const { return type_ == WeightType::kF32 ? 4 : 2; }
  std::size_t size() const {
    if (type_ == WeightType::kQ8) {
      return static_cast<std::size_t>(rows_ * cpu::groups_of(width_)) * sizeof(cpu::Q8Group);
    }
    return static_cast<std::size_t>(rows_ * width_) * element_size();
  }

  WeightType type_;
  int rows_, width_;
  std::vector<std::byte> bytes_;
};

inline constexpr WeightType kWeightTypes[] = {WeightType::kF32, WeightType::kF16,
                                              WeightType::kBF16};

inline std::unique_ptr<const WeightMatrix> load(Backend& backend, const TestWeights& weights,
                                                WeightFormat format = WeightFormat::kStored) {
  const HostMatrix part = weights.host();
  return backend.load_matrix({&part, 1}, format);
}

// The rows of a matrix as a backend keeps them in this format, as float32.
inline TestRows kept(Backend& backend, const HostMatrix& host, WeightFormat format) {
  std::vector<std::int32_t> ids;
  for (int n = 0; n < host.rows; ++n) ids.push_back(n);
  TestRows rows(host.rows, host.width);
  backend.embed(*backend.load_matrix({&host, 1}, format), ids.data(), rows.view());
  return rows;
}

// Plain loops, and the fast backend with each number of threads.
inline std::vector<Backend*> all_backends() {
  return {&plain_backend(), &fast_backend(1), &fast_backend(2), &fast_backend(3)};
}

// Products with weights in this format, for few rows and many, whole panels and others.
// rounded(weights, n, inputs): the weights of output n. product(x, these): one element; x:
// [inputs].
template <typename Rounded, typename Product>
void expect_products(std::uint32_t seed, WeightFormat format, const Rounded& rounded,
                     const Product& product) {
  TestNumbers numbers(seed);
  for (int rows = 1; rows <= 64; ++rows) {
    const int outputs = numbers.between(1, 130);
    const int inputs = rows % 8 == 0 ? numbers.between(250, 600) : numbers.between(1, 90);
    for (const WeightType type : kWeightTypes) {
      const TestWeights weights = TestWeights::random(numbers, type, outputs, inputs);
      const TestRows x = TestRows::random(numbers, rows, inputs, numbers.below(20));
      TestRows want(rows, outputs);
      for (int n = 0; n < outputs; ++n) {
        const auto of_output = rounded(weights, n, inputs);
        for (int t = 0; t < rows; ++t) {
          want.row(t)[n] =
              product(std::span(x.row(t), static_cast<std::size_t>(inputs)), of_output);
        }
      }
      for (Backend* backend : all_backends()) {
        TestRows got(rows, outputs, numbers.below(20));
        backend->matmul(x.view(), *load(*backend, weights, format), got.view());
        ASSERT_TRUE(same_rows(got, want))
            << backend->name()
            << fmt::format(": {} x {} x {}, type {}", rows, outputs, inputs, int(type));
      }
    }
  }
}

}  // namespace specdec
