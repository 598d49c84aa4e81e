#include "kernels/emulation/tensor_cores.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace specdec::emulation {
namespace {

constexpr int kRows = kTensorRows, kColumns = 8, kDepth = kTensorDepth;

struct LaneOperands {
  const unsigned* a;
  const unsigned* b;
  int parts;
  float* total;
};

// Element j, 0 or 1, of two bf16 in a register.
float element(unsigned pair, int j) {
  return std::bit_cast<float>(j == 0 ? pair << 16 : pair & 0xffff0000u);
}

// 2^exponent.
double power_of_two(int exponent) {
  const std::uint64_t biased = 1023 + exponent;
  return std::bit_cast<double>(biased << 52);
}

// The value of the last bit that a sum keeps of its terms: bit 24 of the largest one, or extra_bits
// below it.
double unit_of(double largest, int extra_bits) {
  const int biased = std::bit_cast<std::uint64_t>(largest) >> 52;
  return power_of_two(std::max(biased - 1023, -400) - 23 - extra_bits);
}

float truncated(double value) {  // to 24 bits
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) & ~((1ull << 29) - 1));
}

// Calls visit(m) for all rows. Not unrolled: as a loop, it becomes vector instructions.
template <typename Visit>
void for_rows(const Visit& visit) {
#pragma GCC unroll 1
  for (int m = 0; m < kRows; ++m) visit(m);
}

// add_products() for k from first to last - 1.
void add_block(const TensorRows& a, const float (&b)[kDepth], int first, int last, int extra_bits,
               float (&sums)[kRows]) {
  double products[kDepth][kRows], plain[kRows], largest[kRows];
  for_rows([&](int m) {
    plain[m] = double{sums[m]};
    largest[m] = std::fabs(plain[m]);
  });
  for (int k = first; k < last; ++k) {
    for_rows([&](int m) {
      products[k][m] = double{a[k][m]} * double{b[k]};
      largest[m] = std::max(largest[m], std::fabs(products[k][m]));
    });
  }
  double unit[kRows], inverse[kRows], total[kRows];
  for_rows([&](int m) {
    unit[m] = unit_of(largest[m], extra_bits);
    inverse[m] = 1.0 / unit[m];
    total[m] = std::trunc(plain[m] * inverse[m]);
  });
  for (int k = first; k < last; ++k) {
    for_rows([&](int m) {
      plain[m] += products[k][m];
      total[m] += std::trunc(products[k][m] * inverse[m]);
    });
  }
  for_rows([&](int m) {
    const float sum = truncated(total[m] * unit[m]), unbounded = plain[m];
    sums[m] = std::isfinite(plain[m]) ? sum : unbounded;
  });
}

using Lanes = const LaneOperands* [kLanes];

// Collects column n of B, 16 x 8. Lane 4 g + c has [2 c + 8 r + j][g] in half j of register r.
// Returns whether any of the column is not zero.
bool gather(const Lanes& lanes, int part, int n, float (&b)[kDepth]) {
  unsigned all = 0;
  for (int c = 0; c < 4; ++c) {
    const unsigned* pairs = lanes[4 * n + c]->b + 2 * part;
    for (int i = 0; i < 4; ++i) b[2 * c + 8 * (i / 2) + i % 2] = element(pairs[i / 2], i % 2);
    all |= pairs[0] | pairs[1];
  }
  return (all & 0x7fff7fffu) != 0;
}

// Adds the products to the sums, 16 x 8. Lane 4 g + c has [g + 8 (i / 2)][2 c + i % 2] in element
// i.
void multiply_warp(const LaneValues& brought) {
  Lanes lanes;
  std::array<const unsigned*, kLanes> registers;
  for (unsigned l = 0; l < kLanes; ++l) {
    lanes[l] = reinterpret_cast<const LaneOperands*>(brought[l]);
    registers[l] = lanes[l]->a;
  }
  TensorRows a;
  const bool finite = gather_rows(registers, a);
  for (int n = 0; n < kColumns; ++n) {
    float b[kDepth], sums[kRows];
    const auto for_sums = [&](const auto& visit) {
      for (int m = 0; m < kRows; ++m) {
        visit(lanes[m % 8 * 4 + n / 2]->total[m / 8 * 2 + n % 2], sums[m]);
      }
    };
    for_sums([](float of_lane, float& sum) { sum = of_lane; });
    for (int part = 0; part < lanes[0]->parts; ++part) {
      const bool any = gather(lanes, part, n, b);
      if (any || !finite) add_products(a, b, sums);  // zeros change nothing
    }
    for_sums([](float& of_lane, float sum) { of_lane = sum; });
  }
}

}  // namespace

TensorCoreModel& tensor_core_model() {
  static TensorCoreModel model;
  return model;
}

bool gather_rows(const std::array<const unsigned*, kLanes>& registers, TensorRows& a) {
  unsigned pairs[4][4][8];  // [r][c][g]
  for (unsigned l = 0; l < kLanes; ++l) {
    for (int r = 0; r < 4; ++r) pairs[r][l % 4][l / 4] = registers[l][r];
  }
  unsigned infinite = 0;
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 4; ++c) {
      float* const even = &a[2 * c + 8 * (r / 2)][8 * (r % 2)];
#pragma GCC unroll 1
      for (int g = 0; g < 8; ++g) {
        const unsigned pair = pairs[r][c][g];
        even[g] = element(pair, 0);
        even[g + kRows] = element(pair, 1);
        infinite |= (pair & 0x7f807f80u) + 0x00800080u;  // a carry for the largest exponent
      }
    }
  }
  return (infinite & 0x80008000u) == 0;
}

void add_products(const TensorRows& a, const float (&b)[kDepth], float (&sums)[kRows],
                  const TensorCoreModel& model) {
  const auto [block, extra_bits] = model;
  for (int k = 0; k < kDepth; k += block) add_block(a, b, k, k + block, extra_bits, sums);
}

// Each lane brings the addresses of its registers. When all have arrived, computing the first
// lane's answer does the work.
void multiply_tiles(const unsigned* a, const unsigned* b, int parts, float* total, CallSite site) {
  const LaneOperands mine = {a, b, parts, total};
  const auto work = [](const LaneValues& brought, unsigned, int number) {
    if (number == 0) multiply_warp(brought);
    return std::uint64_t{0};
  };
  warp_collective(0xffffffffu, reinterpret_cast<std::uint64_t>(&mine), work, lane(), false, site);
}

}  // namespace specdec::emulation
