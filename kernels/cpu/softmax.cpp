#include "kernels/cpu/softmax.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu/exponential.h"

namespace specdec::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kRow = kSumLanes;  // tokens added at once
constexpr int kRowVectors = kRow / kDoubles;

using Row = Doubles[kRowVectors];

// A weight, at most 1, in units of kWeightUnit. The last bit of 384 + weight is worth one unit, so
// the addition rounds the weight to a whole number of units.
template <typename F>
auto units_of(F weight) {
  using W = std::conditional_t<std::is_same_v<F, double>, std::uint64_t, LongWords>;
  static_assert(kWeightUnit == 0x1p-44, "the last bit of numbers from 256 to 512");
  return std::bit_cast<W>(weight + 384.0) - std::bit_cast<std::uint64_t>(384.0);
}

// The tree: lanes l and l + 16, then l + 8, 4, 2, 1.
double tree_sum(Row& row) {
  SPECDEC_UNROLL
  for (int half = kRowVectors / 2; half > 0; half /= 2) {
    SPECDEC_UNROLL
    for (int i = 0; i < half; ++i) row[i] += row[i + half];
  }
  double lanes[kDoubles];
  store(lanes, row[0]);
  SPECDEC_UNROLL
  for (int half = kDoubles / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// sums[l] = the sum of the values up to l, by the steps of Hillis and Steele.
void running_sums(double (&sums)[kRow]) {
  for (int distance = 1; distance < kRow; distance *= 2) {
    for (int l = kRow - 1; l >= distance; --l) sums[l] += sums[l - distance];
  }
}

// The total of running sums.
class Total {
 public:
  void add(double value) {
    row_[filled_] = value;
    if (++filled_ == kRow) add_row();
  }
  double get() {
    if (filled_ > 0) add_row();
    return total_;
  }

 private:
  void add_row() {
    running_sums(row_);
    total_ += row_[kRow - 1];
    std::fill(row_, row_ + kRow, 0.0);
    filled_ = 0;
  }

  double row_[kRow] = {};
  int filled_ = 0;
  double total_ = 0;
};

// The sum of a segment, or of the beginning of one; NaN if a weight is negative.
double segment_sum(std::span<const double> weights) {
  Row sums = {}, lowest = {};
  const auto add = [&](const double* from) {
    SPECDEC_UNROLL
    for (int v = 0; v < kRowVectors; ++v) {
      const Doubles weight = load(from + v * kDoubles);
      sums[v] += weight;
      lowest[v] = weight < lowest[v] ? weight : lowest[v];
    }
  };
  std::size_t i = 0;
  for (; i + kRow <= weights.size(); i += kRow) add(weights.data() + i);
  if (i < weights.size()) {
    double rest[kRow] = {};
    std::ranges::copy(weights.subspan(i), rest);
    add(rest);
  }
  Doubles least = lowest[0];
  SPECDEC_UNROLL
  for (int v = 1; v < kRowVectors; ++v) least = lowest[v] < least ? lowest[v] : least;
  return any(least < Doubles{}) ? std::numeric_limits<double>::quiet_NaN() : tree_sum(sums);
}

template <typename T>
std::span<T> segment_of(std::span<T> values, std::size_t first) {
  return values.subspan(first, std::min<std::size_t>(kSegment, values.size() - first));
}

// Stores the weights only if `keeps`.
template <bool keeps>
double sum_of_exponentials(std::span<const float> scores, float peak, double scale,
                           double* weights) {
  const auto row = [=](const float* from, double* to, Row& sums) {
    SPECDEC_UNROLL
    for (int v = 0; v < kRowVectors; ++v) {
      const Doubles x = load_as_doubles(from + v * kDoubles) - splat64<Doubles>(peak);
      const Doubles weight = exponential64(x * splat64<Doubles>(scale));
      if constexpr (keeps) store(to + v * kDoubles, weight);
      sums[v] += weight;
    }
  };
  Total total;
  for (std::size_t first = 0; first < scores.size(); first += kSegment) {
    const std::span<const float> segment = segment_of(scores, first);
    Row sums = {};
    std::size_t i = 0;
    for (; i + kRow <= segment.size(); i += kRow) {
      row(segment.data() + i, keeps ? weights + first + i : nullptr, sums);
    }
    if (i < segment.size()) {
      float from[kRow];
      double to[kRow];
      std::fill(from, from + kRow, -kInfinity);
      std::ranges::copy(segment.subspan(i), from);
      row(from, to, sums);
      if constexpr (keeps) std::copy_n(to, segment.size() - i, weights + first + i);
    }
    total.add(tree_sum(sums));
  }
  return total.get();
}

struct Place {
  std::int32_t index = -1;
  double before = 0;  // the sum of all values before it
};

// The first i < n at which the running sum of value(i) exceeds the mark, or the last one above 0.
template <typename Value>
Place place_above(double mark, double before, std::size_t n, const Value& value) {
  Place place;
  for (std::size_t first = 0; first < n; first += kRow) {
    double values[kRow] = {}, sums[kRow];
    const std::size_t count = std::min<std::size_t>(kRow, n - first);
    for (std::size_t l = 0; l < count; ++l) values[l] = value(first + l);
    std::ranges::copy(values, sums);
    running_sums(sums);
    for (std::size_t l = 0; l < count; ++l) {
      if (!(values[l] > 0)) continue;
      place.index = first + l;
      place.before = l > 0 ? before + sums[l - 1] : before;
      if (before + sums[l] > mark) return place;
    }
    before += sums[kRow - 1];
  }
  return place;
}

}  // namespace

float largest_score(std::span<const float> scores) {
  Floats largest = splat<Floats>(-kInfinity);
  Ints bad = {};
  const auto take = [&](Floats v) {
    bad |= ~(v < splat<Floats>(kInfinity));
    largest = larger(largest, v);
  };
  std::size_t i = 0;
  for (; i + kLanes <= scores.size(); i += kLanes) take(load(scores.data() + i));
  if (i < scores.size()) {
    float rest[kLanes];
    std::fill(rest, rest + kLanes, -kInfinity);
    std::ranges::copy(scores.subspan(i), rest);
    take(load(rest));
  }
  if (any(bad)) return std::numeric_limits<float>::quiet_NaN();
  float lanes[kLanes];
  store(lanes, largest);
  return *std::max_element(lanes, lanes + kLanes);
}

double exponentiate(std::span<const float> scores, float peak, double scale,
                    std::span<double> weights) {
  return sum_of_exponentials<true>(scores, peak, scale, weights.data());
}

double sum_of_exponentials(std::span<const float> scores, float peak, double scale) {
  return sum_of_exponentials<false>(scores, peak, scale, nullptr);
}

void multiply(std::span<double> values, double factor) {
  std::size_t i = 0;
  for (; i + kDoubles <= values.size(); i += kDoubles) {
    store(values.data() + i, load(values.data() + i) * splat64<Doubles>(factor));
  }
  for (; i < values.size(); ++i) values[i] *= factor;
}

double sum(std::span<const double> weights) {
  Total total;
  for (std::size_t first = 0; first < weights.size(); first += kSegment) {
    total.add(segment_sum(segment_of(weights, first)));
  }
  return total.get();
}

double sum(std::span<const std::int32_t> ids, std::span<const double> weights) {
  Total total;
  std::size_t j = 0;
  for (std::int32_t first = 0; j < ids.size(); first += kSegment) {
    double lanes[kRow] = {};
    const std::size_t begin = j;
    for (; j < ids.size() && ids[j] < first + kSegment; ++j) lanes[ids[j] % kRow] += weights[j];
    total.add(j == begin ? 0 : segment_sum(lanes));
  }
  return total.get();
}

std::int32_t first_above(double mark, std::span<const double> weights) {
  const std::size_t segments = (weights.size() + kSegment - 1) / kSegment;
  const Place segment = place_above(mark, 0, segments, [&](std::size_t s) {
    return segment_sum(segment_of(weights, s * kSegment));
  });
  if (segment.index < 0) return -1;
  const int first = segment.index * kSegment;
  const auto values = segment_of(weights, first);
  const Place token =
      place_above(mark, segment.before, values.size(), [&](std::size_t i) { return values[i]; });
  return first + token.index;
}

std::size_t collect_at_least(float bound, std::span<const float> scores,
                             std::span<std::int32_t> ids, std::span<float> kept) {
  std::size_t count = 0, i = 0;
  const auto take = [&](std::size_t at) {
    ids[count] = at;
    kept[count] = scores[at];
    ++count;
  };
  for (; i + kLanes <= scores.size(); i += kLanes) {
    for_true_lanes(load(scores.data() + i) >= splat<Floats>(bound), [&](int l) { take(i + l); });
  }
  for (; i < scores.size(); ++i) {
    if (scores[i] >= bound) take(i);
  }
  return count;
}

std::uint64_t sum_of_units(std::span<const double> weights) {
  LongWords sums = {};
  std::size_t i = 0;
  for (; i + kDoubles <= weights.size(); i += kDoubles) {
    sums += units_of(load(weights.data() + i));
  }
  std::uint64_t sum = 0;
  for (int l = 0; l < kDoubles; ++l) sum += sums[l];
  for (; i < weights.size(); ++i) sum += units_of(weights[i]);
  return sum;
}

double sum_at_least(double bound, std::span<const double> weights) {
  Row sums = {};
  std::size_t i = 0;
  for (; i + kRow <= weights.size(); i += kRow) {
    SPECDEC_UNROLL
    for (int v = 0; v < kRowVectors; ++v) {
      const Doubles weight = load(weights.data() + i + v * kDoubles);
      sums[v] += weight >= splat64<Doubles>(bound) ? weight : Doubles{};
    }
  }
  double sum = tree_sum(sums);
  for (; i < weights.size(); ++i) sum += weights[i] >= bound ? weights[i] : 0;
  return sum;
}

void column_maxima(std::span<const float> scores, std::span<float> maxima) {
  std::ranges::copy(scores.first(maxima.size()), maxima.begin());
  std::size_t first = maxima.size();
  for (; first + maxima.size() <= scores.size(); first += maxima.size()) {
    for (std::size_t c = 0; c < maxima.size(); c += kLanes) {
      const Floats a = load(maxima.data() + c), b = load(scores.data() + first + c);
      store(maxima.data() + c, larger(a, b));
    }
  }
  for (std::size_t i = first; i < scores.size(); ++i) {
    maxima[i - first] = std::max(maxima[i - first], scores[i]);
  }
}

}  // namespace specdec::cpu
