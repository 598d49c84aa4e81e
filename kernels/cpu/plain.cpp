// Every operation as plain loops, one thread, one number at a time: read this first. It also
// defines, to the bit, what the fast versions compute: which products are fused (std::fma rounds
// once), and in which order numbers are added.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/exponential.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/host_backend.h"
#include "kernels/cpu/quantize.h"
#include "kernels/cpu/require.h"

namespace specdec {
namespace {

using cpu::exponential;

// ---- sums

// A sum that vector units of any width can reproduce: lane l of 16 adds the terms l, l + 16, ...
using PartialSums = std::array<float, 16>;

// Adds the lanes as a tree: l and l + 8, then l and l + 4, l + 2, l + 1.
float tree_sum(PartialSums lanes) {
  for (int half = 8; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

// The sum of a[i] * b[i].
template <typename Row>
float dot(const float* a, Row b, int count) {  // [count] each
  PartialSums lanes = {};
  for (int i = 0; i < count; ++i) lanes[i % 16] = std::fma(a[i], b[i], lanes[i % 16]);
  return tree_sum(lanes);
}

float sum(const float* a, int count) {  // [count]
  PartialSums lanes = {};
  for (int i = 0; i < count; ++i) lanes[i % 16] += a[i];
  return tree_sum(lanes);
}

// ---- weights

// A group of a row. Its elements are scale * q + minimum, or scale * q if there is no minimum.
struct PlainGroup {
  float scale;
  std::optional<float> minimum;
  std::array<float, kGroupElements> q;

  PlainGroup(const cpu::Q4Group& group)
      : scale(cpu::float_from_f16(group.scale)), minimum(cpu::float_from_f16(group.minimum)) {
    for (int i = 0; i < kGroupElements; ++i) q[i] = group.q(i);
  }
  PlainGroup(const cpu::Q8Group& group) : scale(cpu::float_from_f16(group.scale)) {
    std::ranges::copy(group.q, q.begin());
  }

  float at(int i) const { return minimum ? scale * q[i] + *minimum : scale * q[i]; }

  // The fast version leaves the q of Q4Group where they are in a word of 8; this is exact.
  float power(int i) const { return minimum ? std::ldexp(1.0f, 4 * (i % 8)) : 1.0f; }
};

// A copy of the checkpoint's rows, in the checkpoint's type or rounded.
class PlainMatrix : public WeightMatrix {
 public:
  PlainMatrix(std::span<const HostMatrix> parts, WeightFormat format)
      : PlainMatrix(cpu::stacked_shape(parts, format)) {
    for (const HostMatrix& part : parts) {
      if (type_ == part.type) {
        append(part.bytes);
      } else if (type_ == WeightType::kInt8) {
        append_int8(part);
      } else {
        append_q4(part);
      }
    }
  }

  // The factor of every element in row n.
  float scale(int n) const { return type_ == WeightType::kInt8 ? scales_[n] : 1.0f; }

  bool has_groups() const { return is_grouped(type_); }
  // Group g of row n. REQUIRES: has_groups().
  PlainGroup group(int n, int g) const {
    const std::size_t index = std::ptrdiff_t{n} * cpu::groups_of(width()) + g;
    if (type_ == WeightType::kQ4) return element<cpu::Q4Group>(index);
    return element<cpu::Q8Group>(index);
  }

  // Element k of row n as float32, which holds every int8, bf16 and f16 exactly; of int8 without
  // its scale.
  float at(int n, int k) const {
    if (has_groups()) return group(n, k / kGroupElements).at(k % kGroupElements);
    const std::size_t index = std::ptrdiff_t{n} * width() + k;
    if (type_ == WeightType::kF32) return element<float>(index);
    if (type_ == WeightType::kInt8) return element<std::int8_t>(index);
    const std::uint16_t bits = element<std::uint16_t>(index);
    return type_ == WeightType::kBF16 ? cpu::float_from_bf16(bits) : cpu::float_from_f16(bits);
  }

 private:
  explicit PlainMatrix(const cpu::StackedShape& shape)
      : WeightMatrix(shape.rows, shape.width, shape.rows * cpu::row_bytes(shape)),
        type_(shape.type) {
    bytes_of_rows_.reserve(bytes());
  }

  void append_int8(const HostMatrix& part) {
    const std::size_t row_bytes = part.bytes.size() / part.rows;
    std::vector<std::int8_t> q(part.width);
    for (int n = 0; n < part.rows; ++n) {
      const std::byte* row = part.bytes.data() + n * row_bytes;
      scales_.push_back(cpu::int8_scale(part.type, row, part.width));
      cpu::quantize(part.type, row, part.width, scales_.back(), q.data());
      append(std::as_bytes(std::span(q)));
    }
  }

  void append_q4(const HostMatrix& part) {
    const std::size_t row_bytes = part.bytes.size() / part.rows;
    std::vector<cpu::Q4Group> groups(cpu::groups_of(part.width));
    for (int n = 0; n < part.rows; ++n) {
      cpu::quantize_q4(part.type, part.bytes.data() + n * row_bytes, part.width, groups.data());
      append(std::as_bytes(std::span(groups)));
    }
  }

  void append(std::span<const std::byte> bytes) {
    bytes_of_rows_.insert(bytes_of_rows_.end(), bytes.begin(), bytes.end());
  }

  template <typename T>
  T element(std::size_t index) const {
    T value;
    std::memcpy(&value, bytes_of_rows_.data() + index * sizeof(T), sizeof(T));
    return value;
  }

  WeightType type_;
  std::vector<std::byte> bytes_of_rows_;
  std::vector<float> scales_;  // [rows] of int8; otherwise empty
};

const PlainMatrix& plain(const WeightMatrix& matrix) {
  const auto* own = dynamic_cast<const PlainMatrix*>(&matrix);
  cpu::require(own != nullptr, "a matrix that this backend loaded");
  return *own;
}

// [snippet product-of-groups]
// Row n, which has groups, times x [K]. The integers q of a group have a chain of their own. If the
// group has a minimum, it is multiplied by the sum of x:
//   sum (scale q + minimum) x = scale sum (q x) + minimum sum x
float product_of_groups(const float* x, const PlainMatrix& w, int n) {
  float total = 0.0f;
  for (int first = 0; first < w.width(); first += kGroupElements) {
    const PlainGroup group = w.group(n, first / kGroupElements);
    const int count = std::min(kGroupElements, w.width() - first);
    float chain = 0.0f;
    for (int i = 0; i < count; ++i) {
      chain = std::fma(x[first + i] / group.power(i), group.power(i) * group.q[i], chain);
    }
    total = std::fma(group.scale, chain, total);
    if (group.minimum) total = std::fma(*group.minimum, sum(x + first, count), total);
  }
  return total;
}
// [end snippet product-of-groups]

// ---- attention

// A row of a cache, read as float32.
template <typename T>
struct StoredRow {
  const T* numbers;
  float operator[](int i) const { return cpu::to_float(numbers[i]); }
};

// One query head of one token over the keys and values at positions 0 .. position:
//   out = sum_j softmax(q . k_j / sqrt(D))_j v_j        (Vaswani et al. 2017, equation 1)
// in one pass, chunk by chunk. The weights are exp(score - maximum), where the maximum is the
// largest score so far. If a chunk has a larger one, the earlier sums are scaled down to it: online
// softmax (Milakov and Gimelshein 2018, algorithm 3). Chunks begin at multiples of kAttentionChunk,
// so a token's sums never depend on the other tokens of its pass. Positions after `position` are
// masked: they are never read, because they may be stale.
template <typename KeyAt, typename ValueAt>
void attend(const float* q,    // [D]
            KeyAt key_at,      // position -> [D]
            ValueAt value_at,  // position -> [D]
            int position, int head_dim,
            float* out) {  // [D]
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  float maximum = std::numeric_limits<float>::lowest();
  float weight_sum = 0.0f;
  std::fill_n(out, head_dim, 0.0f);

  for (int start = 0; start <= position; start += kAttentionChunk) {
    const int count = std::min(kAttentionChunk, position + 1 - start);
    float weights[kAttentionChunk];
    float new_maximum = maximum;
    for (int j = 0; j < count; ++j) {
      weights[j] = dot(q, key_at(start + j), head_dim) * scale;  // the score, until exp
      new_maximum = weights[j] > new_maximum ? weights[j] : new_maximum;
    }
    for (int j = 0; j < count; ++j) weights[j] = exponential(weights[j] - new_maximum);

    const float rescale = exponential(maximum - new_maximum);
    maximum = new_maximum;
    weight_sum = std::fma(weight_sum, rescale, sum(weights, count));
    for (int d = 0; d < head_dim; ++d) {
      float total = out[d] * rescale;
      for (int j = 0; j < count; ++j) total = std::fma(weights[j], value_at(start + j)[d], total);
      out[d] = total;
    }
  }
  for (int d = 0; d < head_dim; ++d) out[d] /= weight_sum;
}

// ---- the operations

class PlainBackend : public cpu::HostBackend {
 public:
  std::string name() const override { return "CPU, plain loops"; }

  std::unique_ptr<const WeightMatrix> load_matrix(std::span<const HostMatrix> parts,
                                                  WeightFormat format) override {
    return std::make_unique<PlainMatrix>(parts, format);
  }

  void embed(const WeightMatrix& table,  // [V, E]
             const std::int32_t* ids,    // [T]
             DeviceRows out) override {  // [T, E]
    const PlainMatrix& rows = plain(table);
    cpu::require(out.width == table.width(), "out as wide as the table");
    for (int t = 0; t < out.rows; ++t) {
      cpu::require(0 <= ids[t] && ids[t] < table.rows(), "ids inside the table");
      for (int k = 0; k < out.width; ++k) {
        out.row(t)[k] = rows.scale(ids[t]) * rows.at(ids[t], k);
      }
    }
  }

  // One chain for each element: ((x0 w0 + x1 w1) + x2 w2) + ..., each step rounded once, then the
  // scale. Vectors and threads take different outputs n, so they never change this order.
  void matmul(ConstDeviceRows x,           // [T, K]
              const WeightMatrix& weight,  // [N, K]
              DeviceRows y) override {     // [T, N]
    cpu::require_matmul(x, weight, y);
    const PlainMatrix& w = plain(weight);
    for (int t = 0; t < x.rows; ++t) {
      for (int n = 0; n < y.width; ++n) {
        if (w.has_groups()) {
          y.row(t)[n] = product_of_groups(x.row(t), w, n);
          continue;
        }
        float total = 0.0f;
        for (int k = 0; k < x.width; ++k) total = std::fma(x.row(t)[k], w.at(n, k), total);
        y.row(t)[n] = w.scale(n) * total;
      }
    }
  }

  // Zhang and Sennrich 2019, equation 4.
  void rms_norm(ConstDeviceRows x,    // [T, E]
                const float* weight,  // [E]
                float eps,
                DeviceRows out) override {  // [T, E]
    cpu::require_same_shape(x, out);
    for (int t = 0; t < x.rows; ++t) {
      const float* row = x.row(t);
      const float mean_square = dot(row, row, x.width) / x.width;
      const float inverse = 1.0f / std::sqrt(mean_square + eps);
      for (int i = 0; i < x.width; ++i) out.row(t)[i] = row[i] * inverse * weight[i];
    }
  }

  void add(DeviceRows x, ConstDeviceRows y) override {  // [T, width] both
    cpu::require_same_shape(x, y);
    for (int t = 0; t < x.rows; ++t) {
      for (int i = 0; i < x.width; ++i) x.row(t)[i] += y.row(t)[i];
    }
  }

  // Shazeer 2020: SwiGLU without its matrices.
  void silu_mul(ConstDeviceRows gate, ConstDeviceRows up,  // [T, F]
                DeviceRows out) override {                 // [T, F]
    cpu::require_same_shape(gate, up);
    cpu::require_same_shape(gate, out);
    for (int t = 0; t < out.rows; ++t) {
      for (int i = 0; i < out.width; ++i) out.row(t)[i] = cpu::silu(gate.row(t)[i]) * up.row(t)[i];
    }
  }

  // (a, b) -> (a cos - b sin, b cos + a sin) with a = x[i], b = x[i + D/2]: Su et al. 2021,
  // equation 34, with pairs in Hugging Face's order.
  void rope(DeviceRows x,                                               // [T, heads * D]
            ConstDeviceRows cosines, ConstDeviceRows sines) override {  // [T, D / 2]
    cpu::require_rope(x, cosines, sines);
    const int half = cosines.width;
    for (int t = 0; t < x.rows; ++t) {
      for (int head = 0; head < x.width; head += 2 * half) {
        float* first = x.row(t) + head;
        float* second = first + half;
        for (int i = 0; i < half; ++i) {
          const float a = first[i], b = second[i];
          const float cosine = cosines.row(t)[i], sine = sines.row(t)[i];
          first[i] = std::fma(a, cosine, -(b * sine));
          second[i] = std::fma(b, cosine, a * sine);
        }
      }
    }
  }

  void attention(ConstDeviceRows q,     // [T, H * D]
                 const KvLayer& cache,  // [slots, Hkv * D]
                 const RowPlaces& places, const HeadShape& heads,
                 DeviceRows out) override {  // [T, H * D]
    cpu::require_attention(q, heads, places, out);
    with_rows(cache, [&](auto rows) { attend_rows(q, rows, places, heads, out); });
  }

  void argmax(ConstDeviceRows x,                       // [T, V]
              std::span<std::int32_t> ids) override {  // [T]
    cpu::require_argmax(x, ids);
    for (int t = 0; t < x.rows; ++t) {
      const float* row = x.row(t);
      const bool has_nan = std::any_of(row, row + x.width, [](float v) { return std::isnan(v); });
      const auto largest = std::max_element(row, row + x.width);  // the first of equal ones
      ids[t] = has_nan ? -1 : largest - row;
    }
  }

 private:
  template <typename T>
  static void attend_rows(ConstDeviceRows q, KvRows<T> cache, const RowPlaces& places,
                          const HeadShape& heads, DeviceRows out) {
    const int group = heads.n_heads / heads.n_kv_heads;
    const std::ptrdiff_t slot_width = std::ptrdiff_t{heads.n_kv_heads} * heads.head_dim;
    for (int t = 0; t < q.rows; ++t) {
      const std::int32_t* pages = places.page_tables + places.table_starts[t];
      for (int h = 0; h < heads.n_heads; ++h) {
        // [snippet slot-of-position]
        const auto slot_of = [&](int j) {
          const std::ptrdiff_t page = pages[j / places.page_size];
          return page * places.page_size + j % places.page_size;
        };
        // [end snippet slot-of-position]
        const auto offset = [&](int j) {
          const std::ptrdiff_t slot =
              j < places.tail_first(t) ? slot_of(j) : places.tail_slot(t, j);
          return slot * slot_width + (h / group) * heads.head_dim;
        };
        const auto key_at = [&](int j) { return StoredRow<T>{cache.keys + offset(j)}; };
        const auto value_at = [&](int j) { return StoredRow<T>{cache.values + offset(j)}; };
        attend(q.row(t) + h * heads.head_dim, key_at, value_at, places.positions[t], heads.head_dim,
               out.row(t) + h * heads.head_dim);
      }
    }
  }
};

}  // namespace

std::unique_ptr<Backend> make_plain_backend() { return std::make_unique<PlainBackend>(); }

}  // namespace specdec
