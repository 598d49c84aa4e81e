#pragma once
#include <bit>
#include <cstring>
#include <type_traits>

#include "kernels/emulation/half.h"
#include "kernels/emulation/scheduler.h"

// Operations that threads do together. Each has its source line as a last, hidden argument, for the
// reports.
namespace specdec::emulation {

// The types that nvcc can shuffle.
template <typename T>
constexpr bool can_be_shuffled = (std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8)) ||
                                 std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

// The value that lane `source` brings.
template <typename T>
T shuffle(unsigned mask, T value, int source, CallSite site) {
  static_assert(can_be_shuffled<T>, "shuffles take numbers of 4 or 8 bytes, and 16 bit floats");
  if ((mask >> source & 1u) == 0) fail("reads from a lane outside the mask", site);
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, &value, sizeof value);
  const auto answer = [](const LaneValues& brought, unsigned, int from) { return brought[from]; };
  bytes = warp_collective(mask, bytes, answer, source, false, site);
  std::memcpy(&value, &bytes, sizeof value);
  return value;
}

// The first lane of the running thread's group of `width` lanes.
inline int first_lane(int width, CallSite site) {
  if (width < 1 || width > warpSize || (width & (width - 1)) != 0) {
    fail("the width of a shuffle must be a power of two, up to 32", site);
  }
  return lane() & -width;
}

// Calls visit(value) for the lanes of the mask.
template <typename Visit>
void for_lanes(const LaneValues& brought, unsigned mask, const Visit& visit) {
  for (; mask != 0; mask &= mask - 1) visit(brought[std::countr_zero(mask)]);
}

// Reduces the values of all lanes. They have 32 bits, and Combine does not depend on the order.
template <typename T, typename Combine>
T reduce(unsigned mask, T value, Combine, CallSite site) {
  static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned>);
  const auto answer = [](const LaneValues& brought, unsigned lanes, int) -> std::uint64_t {
    T result = brought[std::countr_zero(lanes)];
    for_lanes(brought, lanes & (lanes - 1), [&](T next) { result = Combine()(result, next); });
    return result;
  };
  return warp_collective(mask, value, answer, 0, false, site);
}

struct Sum {
  unsigned operator()(unsigned x, unsigned y) const { return x + y; }
};
struct Least {
  template <typename T>
  T operator()(T x, T y) const {
    return y < x ? y : x;
  }
};
struct Greatest {
  template <typename T>
  T operator()(T x, T y) const {
    return x < y ? y : x;
  }
};

}  // namespace specdec::emulation

// ---- barriers

inline void __syncthreads(SPECDEC_CALL_SITE) { specdec::emulation::sync_block(site); }
inline void __syncwarp(unsigned mask = 0xffffffffu, SPECDEC_CALL_SITE) {
  const auto nothing = [](const specdec::emulation::LaneValues&, unsigned, int) {
    return std::uint64_t{0};
  };
  specdec::emulation::warp_collective(mask, 0, nothing, 0, true, site);
}

// ---- fences

inline void __threadfence() { specdec::emulation::thread_fence(); }
inline void __threadfence_block() { specdec::emulation::thread_fence(); }

// ---- votes

// Bit l is set if lane l is in the mask and its predicate holds.
inline unsigned __ballot_sync(unsigned mask, int predicate, SPECDEC_CALL_SITE) {
  const auto votes = [](const specdec::emulation::LaneValues& brought, unsigned lanes, int) {
    std::uint64_t result = 0;
    specdec::emulation::for_lanes(brought, lanes, [&](std::uint64_t bit) { result |= bit; });
    return result;
  };
  const std::uint64_t own = predicate != 0 ? 1u << specdec::emulation::lane() : 0u;
  return specdec::emulation::warp_collective(mask, own, votes, 0, false, site);
}
inline int __any_sync(unsigned mask, int predicate, SPECDEC_CALL_SITE) {
  return __ballot_sync(mask, predicate, site) != 0;
}
inline int __all_sync(unsigned mask, int predicate, SPECDEC_CALL_SITE) {
  return __ballot_sync(mask, predicate, site) == mask;
}

// ---- shuffles, within groups of `width` lanes

// From lane `source` of the group.
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize, SPECDEC_CALL_SITE) {
  const int first = specdec::emulation::first_lane(width, site);
  return specdec::emulation::shuffle(mask, value, first + (source & (width - 1)), site);
}
// From the lane whose number differs in the bits of `lane_mask`, or the lane's own value if that is
// beyond the group.
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize, SPECDEC_CALL_SITE) {
  const int first = specdec::emulation::first_lane(width, site), own = specdec::emulation::lane();
  const int source = own ^ (lane_mask & 31);
  return specdec::emulation::shuffle(mask, value, source < first + width ? source : own, site);
}
// From the lane with a number higher (down) or lower (up) by `delta`, or the lane's own value if
// that is beyond the group.
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                   SPECDEC_CALL_SITE) {
  const int first = specdec::emulation::first_lane(width, site), own = specdec::emulation::lane();
  const int distance = delta & 31u, source = own + distance;
  return specdec::emulation::shuffle(mask, value, source < first + width ? source : own, site);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize, SPECDEC_CALL_SITE) {
  const int first = specdec::emulation::first_lane(width, site), own = specdec::emulation::lane();
  const int distance = delta & 31u, source = own - distance;
  return specdec::emulation::shuffle(mask, value, source >= first ? source : own, site);
}

// ---- reductions of int and unsigned (compute capability 8.0)

template <typename T>
T __reduce_add_sync(unsigned mask, T value, SPECDEC_CALL_SITE) {
  return specdec::emulation::reduce(mask, value, specdec::emulation::Sum(), site);
}
template <typename T>
T __reduce_min_sync(unsigned mask, T value, SPECDEC_CALL_SITE) {
  return specdec::emulation::reduce(mask, value, specdec::emulation::Least(), site);
}
template <typename T>
T __reduce_max_sync(unsigned mask, T value, SPECDEC_CALL_SITE) {
  return specdec::emulation::reduce(mask, value, specdec::emulation::Greatest(), site);
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value, SPECDEC_CALL_SITE) {
  return specdec::emulation::reduce(mask, value, std::bit_and<unsigned>(), site);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value, SPECDEC_CALL_SITE) {
  return specdec::emulation::reduce(mask, value, std::bit_or<unsigned>(), site);
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value, SPECDEC_CALL_SITE) {
  return specdec::emulation::reduce(mask, value, std::bit_xor<unsigned>(), site);
}

// ---- launches that may begin before the previous kernel has ended

inline void cudaGridDependencySynchronize(SPECDEC_CALL_SITE) {
  specdec::emulation::wait_for_grid_before(site);
}
inline void cudaTriggerProgrammaticLaunchCompletion() { specdec::emulation::let_next_begin(); }
