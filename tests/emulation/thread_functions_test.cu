// What a thread computes alone, with values from CUDA's programming guide: on a GPU the same tests
// run with CUDA itself.
#include <cmath>

#include "tests/emulation/run.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

class ThreadFunctions : public DeviceTest {};

__global__ void bit_functions(long long* out) {
  out[0] = __popc(0xf00fu);
  out[1] = __popcll(0xf00f00000000000full);
  out[2] = __clz(1) * 100 + __clz(0);
  out[3] = __clzll(1) * 100 + __clzll(0);
  out[4] = __ffs(0) * 100 + __ffs(8);
  out[5] = __ffsll(1ll << 40);
  out[6] = static_cast<long long>(__umulhi(0xffffffffu, 0xfffffffeu));
  out[7] = static_cast<long long>(__umul64hi(~0ull, 16ull));
  out[8] = static_cast<long long>(__float_as_uint(-1.0f));
  out[9] = __uint_as_float(0x40400000u) == 3.0f;
  out[10] = __double_as_longlong(1.0);
  out[11] = __longlong_as_double(0x4008000000000000ll) == 3.0;
  out[12] = __float_as_int(1.0f);
  out[13] = __int_as_float(0x3f800000) == 1.0f;
}

TEST_F(ThreadFunctions, OfBits) {
  EXPECT_EQ(run(bit_functions, 1, 1, 14),
            (std::vector<long long>{8, 12, 3132, 6364, 4, 41, 0xfffffffd, 15, 0xbf800000, 1,
                                    0x3ff0000000000000, 1, 0x3f800000, 1}));
}

__global__ void arithmetic(float* out) {
  const float tiny = 0x1p-30f, nan = __uint_as_float(0x7fc00000u);
  const float root = 1.0f + 0x1p-12f, near_square = 1.0f + 0x1p-11f;
  out[0] = __fmaf_rn(root, root, -near_square);  // exact only if fused
  out[1] = __fsub_rn(__fmul_rn(root, root), near_square);
  out[2] = __fdiv_rn(1.0f, 3.0f);
  out[3] = __fsqrt_rn(2.0f);
  out[4] = rsqrtf(4.0f);
  out[5] = __fdividef(3.0f, 2.0f);
  out[6] = min(3.0f, nan);
  out[7] = max(nan, tiny);
  out[8] = static_cast<float>(min(3, 4) + max(3, 4) * 10);
  out[9] = static_cast<float>(max(3u, 4u) * 10);
  out[10] = __saturatef(1.5f);
  out[11] = __expf(0.0f);
}

TEST_F(ThreadFunctions, OfNumbers) {
  const std::vector<float> got = run(arithmetic, 1, 1, 12);
  const std::vector<float> expected{0x1p-24f, 0.0f,     1.0f / 3.0f, std::sqrt(2.0f), 0.5f, 1.5f,
                                    3.0f,     0x1p-30f, 43.0f,       40.0f,           1.0f, 1.0f};
  EXPECT_EQ(got, expected);
}

// Through the cache for what no kernel writes meanwhile, through L2 alone, and as read once.
__global__ void loads(const float* from, float* to) {
  to[0] = __ldg(from);
  to[1] = __ldcg(from + 1);
  to[2] = __ldcs(from + 2);
}

TEST_F(ThreadFunctions, OfLoads) {
  const Buffer<float> from(std::vector<float>{1, 2, 3}), to(std::size_t{3});
  launch(loads, 1, 1, 0, nullptr, from.data(), to.data());
  EXPECT_EQ(to.get(), (std::vector<float>{1, 2, 3}));
}

__global__ void vectors(float* out) {
  const float4 a = make_float4(1, 2, 3, 4);
  const int4 b = make_int4(5, 6, 7, 8);
  const float2 c = make_float2(9, 10);
  const uint2 d = make_uint2(11, 12);
  reinterpret_cast<float4*>(out)[0] = a;
  reinterpret_cast<float4*>(out)[1] =
      make_float4(static_cast<float>(b.x), static_cast<float>(b.w), c.y, static_cast<float>(d.x));
}

TEST_F(ThreadFunctions, OfVectors) {
  EXPECT_EQ(sizeof(float4) + alignof(float4) + sizeof(uint2) + alignof(uint2), 48u);
  EXPECT_EQ(run(vectors, 1, 1, 8), (std::vector<float>{1, 2, 3, 4, 5, 8, 10, 11}));
}

}  // namespace
}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
