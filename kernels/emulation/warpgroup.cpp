#include "kernels/emulation/warpgroup.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <vector>

#include "kernels/emulation/block.h"
#include "kernels/emulation/sanitizers.h"
#include "kernels/emulation/tensor_map.h"

namespace specdec::emulation {
namespace {

constexpr unsigned kWarps = 4, kThreads = kWarps * kLanes;
constexpr int kRegisters = 4;  // of A, of a lane
constexpr unsigned kRowBytes = 128, kStepBytes = kTensorDepth * 2, kUnit = 16;

template <typename T>
using OfLanes = std::array<T, kLanes>;

// Registers of A, and what was in them at a fence: `count` for each lane.
struct Fence {
  OfLanes<const unsigned*> at;
  int count;
  std::vector<unsigned> values;
};
// The sums of products in flight, `count` for each lane. The registers are NaN meanwhile.
struct Sums {
  OfLanes<float*> at;
  int count;
  std::vector<float> values;
  int products = 0;  // in flight
};
struct Product {
  std::uint64_t weights;  // a descriptor
  int outputs;
  bool adds;
  std::size_t sums;  // its number among those of the warp
  OfLanes<const unsigned*> a;
  OfLanes<std::array<unsigned, kRegisters>> a_values;  // when it was started
  std::vector<float> b;                                // [outputs][kTensorDepth], likewise
  CallSite site;

  bool same(const Product& other) const {
    return weights == other.weights && outputs == other.outputs && adds == other.adds &&
           site == other.site;
  }
};
struct WarpState {
  std::vector<Fence> fences;
  std::vector<Sums> sums;
  std::vector<Product> products;
};
struct Warpgroup {
  std::array<WarpState, kWarps> warps;
  unsigned waiting = 0;  // threads
};
std::array<std::array<Warpgroup, kMaxThreads / kThreads>, kBlocks> warpgroups;

Warpgroup& my_group() { return warpgroups[running_block()][now->running / kThreads]; }
WarpState& my_warp() { return my_group().warps[now->running / kLanes % kWarps]; }

// What a lane passes to start_product().
struct Call {
  const unsigned* a;
  std::uint64_t weights;
  int outputs;
  bool adds;
  float* sums;
  CallSite site;
};
// Of fence_registers().
struct FenceCall {
  const unsigned* registers;
  int count;
};
template <typename T>
const T& call_of(const LaneValues& brought, unsigned lane) {
  return *reinterpret_cast<const T*>(brought[lane]);
}

unsigned char* in_shared(unsigned address) {
  return static_cast<unsigned char*>(dynamic_shared_memory()) + address;
}

// The part of a descriptor that says where the step's weights begin, and the distance between
// groups of 8 outputs.
struct Place {
  unsigned start, apart;
};
Place place_of(std::uint64_t descriptor, int outputs, CallSite site) {
  const unsigned start = (descriptor & 0x3fff) * kUnit, apart = (descriptor >> 32 & 0x3fff) * kUnit;
  const unsigned offset = descriptor >> 49 & 7, swizzle = descriptor >> 62;
  if (swizzle != 1) fail("a descriptor without the 128-byte swizzle: not emulated", site);
  if (offset != 0 || start % (8 * kRowBytes) >= kRowBytes) {
    fail("the box of a descriptor is not at a multiple of 1024 bytes", site);
  }
  if (start % kRowBytes + kStepBytes > kRowBytes) {
    fail("the inputs of a descriptor are not in one row of its box", site);
  }
  const unsigned last = start / kRowBytes * kRowBytes + (outputs / 8 - 1) * apart;
  if (last + 8 * kRowBytes > now->launch->shared_bytes) {
    fail("the box of a descriptor ends beyond dynamic shared memory", site);
  }
  return {start, apart};
}

// [outputs][kTensorDepth].
std::vector<float> read_weights(std::uint64_t descriptor, int outputs, CallSite site) {
  const auto [start, apart] = place_of(descriptor, outputs, site);
  std::vector<float> weights(static_cast<std::size_t>(outputs) * kTensorDepth);
  for (int n = 0; n < outputs; ++n) {
    for (unsigned unit = 0; unit < kStepBytes / kUnit; ++unit) {
      const unsigned address = start + n / 8 * apart + n % 8 * kRowBytes + unit * kUnit;
      std::array<std::uint16_t, kUnit / 2> bits;
      std::memcpy(&bits, in_shared(swizzled(address)), sizeof bits);
      const auto to_float = [](std::uint16_t w) { return std::bit_cast<float>(unsigned{w} << 16); };
      std::transform(bits.begin(), bits.end(), &weights[n * kTensorDepth + unit * bits.size()],
                     to_float);
    }
  }
  return weights;
}

// ---- a fence, and the start of a product: in the name of all lanes

void fence_warp(const LaneValues& brought) {
  Fence fence{{}, call_of<FenceCall>(brought, 0).count, {}};
  for (unsigned l = 0; l < kLanes; ++l) {
    const auto& [registers, count] = call_of<FenceCall>(brought, l);
    fence.at[l] = registers;
    fence.values.insert(fence.values.end(), registers, registers + count);
  }
  my_warp().fences.push_back(std::move(fence));
}

// Whether a fence came after the last write to the lane's registers.
bool is_fenced(const WarpState& warp, unsigned lane, const unsigned* a) {
  const auto names = [&](const Fence& fence) {
    return fence.at[lane] <= a && a + kRegisters <= fence.at[lane] + fence.count;
  };
  const auto last = std::find_if(warp.fences.rbegin(), warp.fences.rend(), names);
  if (last == warp.fences.rend()) return false;
  const unsigned* const then = &last->values[lane * last->count + (a - last->at[lane])];
  return std::equal(a, a + kRegisters, then);
}

// The number of the sums that the lanes name; if no product in flight has them, they are new.
std::size_t sums_of(WarpState& warp, const LaneValues& brought) {
  const Call& first = call_of<Call>(brought, 0);
  for (std::size_t i = 0; i < warp.sums.size(); ++i) {
    if (warp.sums[i].products > 0 && warp.sums[i].at[0] == first.sums) return i;
  }
  Sums sums{{}, first.outputs / 2, {}};
  for (unsigned l = 0; l < kLanes; ++l) {
    float* const at = call_of<Call>(brought, l).sums;
    sums.at[l] = at;
    if (first.adds) {
      sums.values.insert(sums.values.end(), at, at + sums.count);
    } else {
      sums.values.resize(sums.values.size() + sums.count);
    }
    std::memset(at, 0xff, sums.count * sizeof(float));
  }
  warp.sums.push_back(std::move(sums));
  return warp.sums.size() - 1;
}

void start_in_warp(const LaneValues& brought) {
  WarpState& warp = my_warp();
  const Call& first = call_of<Call>(brought, 0);
  Product product{first.weights, first.outputs, first.adds, 0, {}, {}, {}, first.site};
  for (unsigned l = 0; l < kLanes; ++l) {
    const Call& call = call_of<Call>(brought, l);
    if (call.weights != first.weights || call.adds != first.adds) {
      fail("the lanes of a warp start different products", first.site);
    }
    if (!is_fenced(warp, l, call.a)) {
      fail("registers of A were written without a fence before the product", first.site);
    }
    product.a[l] = call.a;
    std::copy_n(call.a, kRegisters, product.a_values[l].begin());
  }
  product.b = read_weights(first.weights, first.outputs, first.site);
  product.sums = sums_of(warp, brought);
  ++warp.sums[product.sums].products;
  warp.products.push_back(std::move(product));
}

// ---- the end of products

void check_unchanged(const Product& product) {
  for (unsigned l = 0; l < kLanes; ++l) {
    if (!std::equal(product.a_values[l].begin(), product.a_values[l].end(), product.a[l])) {
      fail("registers of A were written while a product was in flight", product.site);
    }
  }
  const auto weights = read_weights(product.weights, product.outputs, product.site);
  if (std::memcmp(weights.data(), product.b.data(), weights.size() * sizeof(float)) != 0) {
    fail("weights were written while a product was in flight", product.site);
  }
}

bool is_zero(const Product& product) {
  unsigned bits = 0;
  for (const auto& registers : product.a_values) {
    for (const unsigned pair : registers) bits |= pair;
  }
  return (bits & 0x7fff7fffu) == 0;
}

void multiply(const Product& product, Sums& sums) {
  TensorRows a;
  const bool finite = gather_rows(product.a, a), zero = is_zero(product);
  for (int n = 0; n < product.outputs; ++n) {
    float b[kTensorDepth], of_rows[kTensorRows];
    std::copy_n(&product.b[n * kTensorDepth], kTensorDepth, b);
    const auto sum_of = [&](int m) -> float& {
      return sums.values[(m % 8 * 4 + n % 8 / 2) * sums.count + n / 8 * 4 + m / 8 * 2 + n % 2];
    };
    for (int m = 0; m < kTensorRows; ++m) of_rows[m] = product.adds ? sum_of(m) : 0.0f;
    const auto all = [&](auto is) { return std::all_of(b, b + kTensorDepth, is); };
    const bool nothing = zero ? all([](float w) { return std::isfinite(w); })
                              : finite && all([](float w) { return w == 0.0f; });
    if (!nothing) add_products(a, b, of_rows, warpgroup_model());  // zeros change nothing
    for (int m = 0; m < kTensorRows; ++m) sum_of(m) = of_rows[m];
  }
}

void write_back(const Sums& sums, CallSite site) {
  for (unsigned l = 0; l < kLanes; ++l) {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(sums.at[l]);
    const auto is_spoiled = [](unsigned char byte) { return byte == 0xff; };
    if (!std::all_of(bytes, bytes + sums.count * sizeof(float), is_spoiled)) {
      fail("sums were written while a product was in flight", site);
    }
    std::copy_n(&sums.values[l * sums.count], sums.count, sums.at[l]);
  }
}

void finish(WarpState& warp) {
  for (const Product& product : warp.products) {
    Sums& sums = warp.sums[product.sums];
    check_unchanged(product);
    multiply(product, sums);
    if (--sums.products == 0) write_back(sums, product.site);
  }
  warp = {};  // stricter than PTX: it allows registers that did not change without another fence
}

// All threads of the warpgroup wait.
void finish(Warpgroup& group, CallSite site) {
  [[maybe_unused]] const OutsideTheKernel outside;
  const WarpState& first = group.warps[0];
  for (WarpState& warp : group.warps) {
    if (!std::equal(warp.products.begin(), warp.products.end(), first.products.begin(),
                    first.products.end(),
                    [](const Product& a, const Product& b) { return a.same(b); })) {
      fail("the warps of a warpgroup start different products", site);
    }
  }
  for (WarpState& warp : group.warps) finish(warp);
}

// Lets the lanes of the running warp meet. kWork then runs once, for all of them.
template <void (*kWork)(const LaneValues&), typename T>
void meet(const T& call, CallSite site) {
  const auto work = [](const LaneValues& brought, unsigned, int number) {
    if (number == 0) {
      [[maybe_unused]] const OutsideTheKernel outside;
      kWork(brought);
    }
    return std::uint64_t{0};
  };
  warp_collective(0xffffffffu, reinterpret_cast<std::uint64_t>(&call), work, lane(), false, site);
}

void only_meet(const LaneValues&) {}

// To ThreadSanitizer, a thread reads the rows of the boxes that have its number.
void read_row([[maybe_unused]] const WarpState& warp) {
  IF_TSAN(const unsigned row = now->running % kThreads; for (const Product& product
                                                             : warp.products) {
    const auto [start, apart] = place_of(product.weights, product.outputs, product.site);
    if (row >= static_cast<unsigned>(product.outputs)) continue;
    const unsigned begin = start / kRowBytes * kRowBytes + row / 8 * apart + row % 8 * kRowBytes;
    __tsan_read_range(in_shared(begin), kRowBytes);
  })
}

}  // namespace

TensorCoreModel& warpgroup_model() {
  static TensorCoreModel model;
  return model;
}

unsigned address_in_shared(const void* address, CallSite site) {
  const std::ptrdiff_t offset = static_cast<const unsigned char*>(address) - in_shared(0);
  if (offset < 0 || offset >= static_cast<std::ptrdiff_t>(now->launch->shared_bytes)) {
    fail("the address is not in the block's dynamic shared memory", site);
  }
  return static_cast<unsigned>(offset);
}

void fence_registers(const unsigned* registers, int count, CallSite site) {
  meet<fence_warp>(FenceCall{registers, count}, site);
}

void start_product(const unsigned* a, std::uint64_t weights, int outputs, bool adds, float* sums,
                   CallSite site) {
  meet<start_in_warp>(Call{a, weights, outputs, adds, sums, site}, site);
}

void await_products(CallSite site) {
  meet<only_meet>(0, site);
  Warpgroup& group = my_group();
  read_row(my_warp());
  if (++group.waiting < kThreads) return wait_for(&group, site);
  finish(group, site);
  group.waiting = 0;
  wake(&group);
}

void forget_products() {
  [[maybe_unused]] const OutsideTheKernel outside;
  warpgroups[running_block()].fill({});
}

void check_no_products_in_flight() {
  for (const Warpgroup& group : warpgroups[running_block()]) {
    for (const WarpState& warp : group.warps) {
      if (warp.products.empty()) continue;
      fail("the block has ended with products in flight", warp.products.front().site);
    }
  }
}

const char* why_warpgroups_wait() {
  for (const Warpgroup& group : warpgroups[running_block()]) {
    if (group.waiting > 0) return "deadlock: not all four warps of a warpgroup wait for products";
  }
  return nullptr;
}

}  // namespace specdec::emulation
