#pragma once

namespace specdec {

// e^x in float64 for x <= 0, made only of additions, multiplications and fused multiply-adds, whose
// results IEEE 754 defines. So every CPU and GPU gets the same bits, which no library guarantees.
//   x = n ln 2 + r, |r| <= ln 2 / 2;   e^x = 2^n e^r;   e^r = 1 + r Q(r)
// Q of degree 10 interpolates (e^r - 1) / r at Chebyshev nodes. n ln 2 is subtracted in one step,
// so r has an error of up to 2.4e-17 n: less than half the effect of rounding x itself. e^0 is 1.
struct Exponential64 {
  static constexpr double lowest = -708;  // below, the result is 0; from here on, a normal number
  static constexpr double per_ln2 = 0x1.71547652b82fep0;
  static constexpr double ln2 = 0x1.62e42fefa39efp-1;
  // Adding it to a small number leaves no bits for a fraction: the sum is rounded to an integer,
  // which is in its low bits.
  static constexpr double shift = 0x1.8p52;
  static constexpr double q0 = 0x1p0;
  static constexpr double q1 = 0x1.0000000000005p-1;
  static constexpr double q2 = 0x1.5555555555557p-3;
  static constexpr double q3 = 0x1.55555555520a4p-5;
  static constexpr double q4 = 0x1.11111111100dcp-7;
  static constexpr double q5 = 0x1.6c16c17f46982p-10;
  static constexpr double q6 = 0x1.a01a01abe7fe1p-13;
  static constexpr double q7 = 0x1.a019a6611cad5p-16;
  static constexpr double q8 = 0x1.71de0231960ebp-19;
  static constexpr double q9 = 0x1.28a2ca617b969p-22;
  static constexpr double q10 = 0x1.af4de97ca4194p-26;
};

}  // namespace specdec
