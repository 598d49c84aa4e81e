#pragma once

// CUDA's vector types, with nvcc's sizes and alignments: a float4 is one load or store of 16 bytes,
// and its address must be a multiple of 16.
struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

#define SPECDEC_VECTOR_TYPES(T, name)                        \
  struct alignas(2 * sizeof(T)) name##2 {                    \
    T x, y;                                                  \
  };                                                         \
  struct alignas(4 * sizeof(T)) name##4 {                    \
    T x, y, z, w;                                            \
  };                                                         \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
SPECDEC_VECTOR_TYPES(float, float)
SPECDEC_VECTOR_TYPES(int, int)
SPECDEC_VECTOR_TYPES(unsigned, uint)
#undef SPECDEC_VECTOR_TYPES
