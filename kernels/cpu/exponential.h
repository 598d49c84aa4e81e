#pragma once
#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/vector.h"
#include "kernels/exponential64.h"

namespace specdec::cpu {

// x * 2^n, rounded once, for -152 <= n <= 128. n is also in the low bits of `shifted`, from which
// the exponent fields of two factors are made: both are normal numbers, and only the last product
// rounds. The bias makes the arithmetic unsigned. AVX-512 has an instruction for all this.
template <typename F>
inline F times_power_of_2(F x, [[maybe_unused]] F n, F shifted) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<F, Floats>) return _mm512_maskz_scalef_ps(0xffff, x, n);
#endif
  using W = std::conditional_t<std::is_same_v<F, float>, std::uint32_t, Words>;
  const W biased = std::bit_cast<W>(shifted) - (0x4b400000u - 256u);  // n + 256
  const W half = biased >> 1;
  const F first = std::bit_cast<F>((half - 1u) << 23);            // 2^(half - 128)
  const F second = std::bit_cast<F>((biased - half - 1u) << 23);  // 2^(biased - half - 128)
  return x * first * second;
}

// e^x for a float or for each lane of a vector: the same operations, so the same bits on every
// machine, which the C library does not guarantee. No branches.
//   x = n ln 2 + r, |r| <= ln 2 / 2;   e^x = 2^n e^r;   e^r = 1 + r + r^2 P(r)
// P of degree 4 interpolates (e^r - 1 - r) / r^2 at Chebyshev nodes; its error is below 1.1e-8.
// Within 1.1 ulp of the exact value, including subnormal results. e^-inf = 0, e^inf = inf, and NaN
// gives NaN.
//
// Computes `count` of them at once. Each is a chain of dependent operations, so several take hardly
// longer than one.
template <int count, typename F>
[[gnu::always_inline]] inline void exponentials(F* x) {  // [count], overwritten
  const auto each = [](const auto& step) {
    SPECDEC_UNROLL
    for (int i = 0; i < count; ++i) step(i);
  };
  // Beyond these bounds the result is 0 or inf anyway, and n stays in a range where 2^n can be
  // halved. Results of 0 multiply a zero by 2^n, because on some processors a product that
  // underflows takes as long as a hundred others.
  const F lowest = splat<F>(-105.0f), highest = splat<F>(89.0f);
  decltype(*x < lowest) is_zero[count];
  each([&](int i) { is_zero[i] = x[i] < lowest; });
  each([&](int i) { x[i] = smaller(larger(x[i], lowest), highest); });  // a NaN stays NaN

  // Adding 1.5 * 2^23 leaves no bits for a fraction: the sum is rounded to an integer, which is in
  // its low bits.
  const F shift = splat<F>(0x1.8p23f);
  F shifted[count], n[count];
  each(
      [&](int i) { shifted[i] = multiply_add(x[i], splat<F>(0x1.715476p0f), shift); });  // x / ln 2
  each([&](int i) { n[i] = shifted[i] - shift; });
  // ln 2 in two parts. The upper one has few enough bits that its product with n is exact.
  F* const r = x;
  each([&](int i) { r[i] = multiply_add(n[i], splat<F>(-0x1.62p-1f), x[i]); });
  each([&](int i) { r[i] = multiply_add(n[i], splat<F>(-0x1.c85fe0p-10f), r[i]); });

  F p[count];
  each([&](int i) { p[i] = splat<F>(0x1.6d117cp-10f); });
  each([&](int i) { p[i] = multiply_add(p[i], r[i], splat<F>(0x1.120be2p-7f)); });
  each([&](int i) { p[i] = multiply_add(p[i], r[i], splat<F>(0x1.555518p-5f)); });
  each([&](int i) { p[i] = multiply_add(p[i], r[i], splat<F>(0x1.5554dcp-3f)); });
  each([&](int i) { p[i] = multiply_add(p[i], r[i], splat<F>(0.5f)); });
  F power[count];
  each([&](int i) { power[i] = multiply_add(r[i] * r[i], p[i], r[i]) + splat<F>(1.0f); });

  each([&](int i) { x[i] = times_power_of_2(is_zero[i] ? F{} : power[i], n[i], shifted[i]); });
}

template <typename F>
inline F exponential(F x) {
  exponentials<1>(&x);
  return x;
}

// e^x in float64, for a double or for each lane of a vector (kernels/exponential64.h). REQUIRES:
// x <= 0; x may be minus infinity.
template <typename F>
inline F exponential64(F x) {
  using W = std::conditional_t<std::is_same_v<F, double>, std::uint64_t, LongWords>;
  using E = Exponential64;
  const F shifted = multiply_add(x, splat64<F>(E::per_ln2), splat64<F>(E::shift));
  const F n = shifted - splat64<F>(E::shift);
  const F r = multiply_add(n, splat64<F>(-E::ln2), x);

  F q = splat64<F>(E::q10);
  q = multiply_add(q, r, splat64<F>(E::q9));
  q = multiply_add(q, r, splat64<F>(E::q8));
  q = multiply_add(q, r, splat64<F>(E::q7));
  q = multiply_add(q, r, splat64<F>(E::q6));
  q = multiply_add(q, r, splat64<F>(E::q5));
  q = multiply_add(q, r, splat64<F>(E::q4));
  q = multiply_add(q, r, splat64<F>(E::q3));
  q = multiply_add(q, r, splat64<F>(E::q2));
  q = multiply_add(q, r, splat64<F>(E::q1));
  q = multiply_add(q, r, splat64<F>(E::q0));
  const F power = multiply_add(q, r, splat64<F>(1.0));

  // Adds n to the exponent field; the shift drops the other bits of `shifted`.
  const F result = std::bit_cast<F>(std::bit_cast<W>(power) + (std::bit_cast<W>(shifted) << 52));
  return x < splat64<F>(E::lowest) ? F{} : result;
}

// z / (1 + e^-z)
template <typename F>
inline F silu(F z) {
  return z / (splat<F>(1.0f) + exponential(-z));
}

}  // namespace specdec::cpu
