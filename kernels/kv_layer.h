#pragma once
#include <cstddef>
#include <cstdint>

namespace specdec {

// The number type of a cache's keys and values. They are computed in float32 and rounded once, when
// they are stored: to nearest, ties to even. Attention reads the stored numbers exactly. So with
// kBF16, a pass gives the same bits as one with kF32 whose keys and values were rounded.
enum class KvType { kF32, kBF16 };

constexpr std::size_t element_size(KvType type) { return type == KvType::kF32 ? 4 : 2; }

// bfloat16: the upper half of a float32.
struct BFloat16 {
  std::uint16_t bits;
};

// Keys and values of one layer as numbers of type T.
template <typename T>
struct KvRows {
  T* keys = nullptr;    // [slots, Hkv * D]
  T* values = nullptr;  // [slots, Hkv * D]
};

// One layer's keys and values. A slot holds those of one token, [Hkv, D] each, keys rotated.
struct KvLayer {
  void* keys = nullptr;    // [slots, Hkv * D]
  void* values = nullptr;  // [slots, Hkv * D]
  KvType type = KvType::kF32;

  // REQUIRES: T matches `type`, or is an integer type that holds its numbers.
  template <typename T>
  KvRows<T> rows() const {
    return {static_cast<T*>(keys), static_cast<T*>(values)};
  }
};

// Calls job(KvRows<T>) with the layer's T.
template <typename Job>
void with_rows(const KvLayer& layer, const Job& job) {
  switch (layer.type) {
    case KvType::kF32:
      return job(layer.rows<float>());
    case KvType::kBF16:
      return job(layer.rows<BFloat16>());
  }
}

}  // namespace specdec
