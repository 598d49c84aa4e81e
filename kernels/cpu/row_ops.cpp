// The operations that process each row by itself, vectorised.
#include "kernels/cpu/row_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/exponential.h"
#include "kernels/cpu/sums.h"

namespace specdec::cpu {
namespace {

// Calls job(begin, end) for ranges of rows, in all threads or, if that would cost more than it
// gains, only in this one. nanoseconds: an estimate for one row.
template <typename Job>
void for_rows(ThreadTeam& team, int rows, std::int64_t nanoseconds, const Job& job) {
  constexpr std::int64_t kWorthSplitting = 3000;
  if (rows > 1 && rows * nanoseconds > kWorthSplitting) {
    team.run_ranges(rows, job);
  } else {
    job(std::int64_t{0}, std::int64_t{rows});
  }
}

// out[i] = f(a[i], b[i]), count elements, vector by vector.
template <typename F>
void map(const float* a, const float* b, float* out, int count, const F& f) {
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) store(out + i, f(load(a + i), load(b + i)));
  const int rest = count - i;
  if (rest > 0) store_first(out + i, f(load_first(a + i, rest), load_first(b + i, rest)), rest);
}

float sum_of_squares(const float* x, int count) {  // [count]
  PartialSums sums;
  int i = 0;
  for (; i + kPartialSums <= count; i += kPartialSums) {
    SPECDEC_UNROLL
    for (int part = 0; part < kSumVectors; ++part) {
      const Floats v = load(x + i + part * kLanes);
      sums.part[part] = multiply_add(v, v, sums.part[part]);
    }
  }
  for (int part = 0; i < count; ++part, i += kLanes) {
    const Floats v = load_first(x + i, std::min(kLanes, count - i));
    sums.part[part] = multiply_add(v, v, sums.part[part]);
  }
  return tree_sum(fold(sums));
}

void norm_row(const float* x, const float* weight, float eps, float* out, int width) {  // [width]
  const float mean_square = sum_of_squares(x, width) / width;
  const Floats inverse = splat<Floats>(1.0f / std::sqrt(mean_square + eps));
  map(x, weight, out, width, [&](Floats v, Floats w) { return v * inverse * w; });
}

// Rotates a head: a is its first half, b its second.
void turn(float* a, float* b, const float* cosines, const float* sines, int half) {  // [D / 2] each
  int i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const Floats first = load(a + i), second = load(b + i);
    const Floats cosine = load(cosines + i), sine = load(sines + i);
    store(a + i, multiply_add(first, cosine, -(second * sine)));
    store(b + i, multiply_add(second, cosine, first * sine));
  }
  for (; i < half; ++i) {
    const float first = a[i], second = b[i];
    a[i] = multiply_add(first, cosines[i], -(second * sines[i]));
    b[i] = multiply_add(second, cosines[i], first * sines[i]);
  }
}

// Two passes: one finds the largest value, the other its first index, mostly in cached data.
std::int32_t argmax_row(const float* x, int width) {  // [width]
  Floats largest = splat<Floats>(-std::numeric_limits<float>::infinity());
  Ints has_nan = {};
  const auto look = [&](Floats v) {
    largest = larger(largest, v);
    has_nan |= v != v;
  };
  int i = 0;
  for (; i + kLanes <= width; i += kLanes) look(load(x + i));
  for (; i < width; ++i) look(splat<Floats>(x[i]));
  if (any(has_nan)) return -1;

  const float maximum = largest_lane(largest);
  const Floats wanted = splat<Floats>(maximum);
  for (i = 0; i + kLanes <= width && !any(load(x + i) == wanted);) i += kLanes;
  while (x[i] != maximum) ++i;
  return i;
}

}  // namespace

void rms_norm(ThreadTeam& team, ConstDeviceRows x, const float* weight, float eps, DeviceRows out) {
  for_rows(team, x.rows, x.width / 8, [&](std::int64_t begin, std::int64_t end) {
    for (int t = begin; t < end; ++t) {
      norm_row(x.row(t), weight, eps, out.row(t), x.width);
    }
  });
}

void add(ThreadTeam& team, DeviceRows x, ConstDeviceRows y) {
  for_rows(team, x.rows, x.width / 16, [&](std::int64_t begin, std::int64_t end) {
    for (int t = begin; t < end; ++t) {
      map(x.row(t), y.row(t), x.row(t), x.width, [](Floats a, Floats b) { return a + b; });
    }
  });
}

void silu_mul(ThreadTeam& team, ConstDeviceRows gate, ConstDeviceRows up, DeviceRows out) {
  for_rows(team, out.rows, out.width / 2, [&](std::int64_t begin, std::int64_t end) {
    for (int t = begin; t < end; ++t) {
      map(gate.row(t), up.row(t), out.row(t), out.width,
          [](Floats g, Floats u) { return silu(g) * u; });
    }
  });
}

void rope(ThreadTeam& team, DeviceRows x, ConstDeviceRows cosines, ConstDeviceRows sines) {
  const int half = cosines.width;
  for_rows(team, x.rows, x.width / 8, [&](std::int64_t begin, std::int64_t end) {
    for (int t = begin; t < end; ++t) {
      for (float* head = x.row(t); head < x.row(t) + x.width; head += 2 * half) {
        turn(head, head + half, cosines.row(t), sines.row(t), half);
      }
    }
  });
}

void argmax(ThreadTeam& team, ConstDeviceRows x, std::span<std::int32_t> ids) {
  for_rows(team, x.rows, x.width / 16, [&](std::int64_t begin, std::int64_t end) {
    for (int t = begin; t < end; ++t) {
      ids[t] = argmax_row(x.row(t), x.width);
    }
  });
}

}  // namespace specdec::cpu
