// The bits themselves, recorded: whatever the compiler, the vectors' width and the machine
// (AVX-512, AVX2, Arm), fixed inputs give these outputs. A change of the order of operations is a
// decision: it changes the numbers here, the comment in plain.cpp, and every recorded output of the
// CPU.
#include "kernels/cpu/quantize.h"
#include "tests/unit/kernels/cpu/cpu_test_support.h"

namespace specdec {
namespace {

// FNV-1a over the bits.
std::uint64_t hash(const TestRows& rows) {
  std::uint64_t state = 14695981039346656037u;
  for (int t = 0; t < rows.rows(); ++t) {
    for (int i = 0; i < rows.width(); ++i) {
      state = (state ^ std::bit_cast<std::uint32_t>(rows.row(t)[i])) * 1099511628211u;
    }
  }
  return state;
}

TEST(CpuBits, Matmul) {
  constexpr std::uint64_t want[] = {3260903592618983790u, 14271420342403333912u,
                                    18016256144924426884u};
  for (std::size_t i = 0; i < 3; ++i) {
    for (Backend* backend : {&plain_backend(), &fast_backend(2)}) {
      TestNumbers numbers(41);
      const TestWeights weights = TestWeights::random(numbers, kWeightTypes[i], 131, 517);
      const TestRows x = TestRows::random(numbers, 13, 517);
      TestRows y(13, 131);
      backend->matmul(x.view(), *load(*backend, weights), y.view());
      EXPECT_EQ(hash(y), want[i]) << backend->name();
    }
  }
}

TEST(CpuBits, RoundedMatmul) {
  constexpr std::uint64_t want_int8[] = {15714053121645850939u, 15803833810102483732u,
                                         13326904705465194964u};
  constexpr std::uint64_t want_q4[] = {9519880606302541012u, 12058201887823831009u,
                                       8530579961182793517u};
  for (std::size_t i = 0; i < 3; ++i) {
    for (Backend* backend : {&plain_backend(), &fast_backend(2)}) {
      TestNumbers numbers(44);
      const TestWeights weights = TestWeights::random(numbers, kWeightTypes[i], 131, 517);
      const TestRows x = TestRows::random(numbers, 13, 517);
      TestRows y(13, 131);
      backend->matmul(x.view(), *load(*backend, weights, WeightFormat::kInt8), y.view());
      EXPECT_EQ(hash(y), want_int8[i]) << backend->name();
      backend->matmul(x.view(), *load(*backend, weights, WeightFormat::kQ4), y.view());
      EXPECT_EQ(hash(y), want_q4[i]) << backend->name();
    }
  }
}

TEST(CpuBits, MatmulWithGroupsOfEightBits) {
  for (Backend* backend : {&plain_backend(), &fast_backend(2)}) {
    TestNumbers numbers(45);
    const std::vector<cpu::Q8Group> groups = random_groups(numbers, 131 * 16);
    const HostMatrix host{WeightType::kQ8, std::as_bytes(std::span(groups)), 131, 512};
    const TestRows x = TestRows::random(numbers, 13, 512);
    TestRows y(13, 131);
    backend->matmul(x.view(), *backend->load_matrix({&host, 1}), y.view());
    EXPECT_EQ(hash(y), 1768721684236022308u) << backend->name();
  }
}

TEST(CpuBits, NormAndSilu) {
  for (Backend* backend : {&plain_backend(), &fast_backend(2)}) {
    TestNumbers numbers(42);
    TestRows x = TestRows::random(numbers, 9, 1003), y = TestRows::random(numbers, 9, 1003), z = y;
    backend->rms_norm(x.view(), y.row(0), 1e-5f, z.view());
    EXPECT_EQ(hash(z), 1386370470121989567u) << backend->name();
    backend->silu_mul(z.view(), y.view(), x.view());
    EXPECT_EQ(hash(x), 18090255169984225405u) << backend->name();
    backend->rope(z.view().columns(0, 1000), x.view().columns(0, 50), y.view().columns(0, 50));
    EXPECT_EQ(hash(z), 9183497107235097035u) << backend->name();
  }
}

TEST(CpuBits, Attention) {
  for (Backend* backend : {&plain_backend(), &fast_backend(2)}) {
    TestNumbers numbers(43);
    TestRows keys = TestRows::random(numbers, 400, 2 * 36);
    TestRows values = TestRows::random(numbers, 400, 2 * 36);
    const TestRows q = TestRows::random(numbers, 3, 6 * 36);
    TestRows out(3, 6 * 36);
    for (int j = 0; j < 400; ++j) {
      for (int i = 0; i < 72; ++i) keys.row(j)[i] *= 8.0f;
    }
    const std::int32_t positions[] = {10, 399, 200}, starts[] = {0, 0, 0}, table[] = {0};
    const RowPlaces places{positions, nullptr, starts, table, 400};
    backend->attention(q.view(), {keys.row(0), values.row(0)}, places, {6, 2, 36}, out.view());
    EXPECT_EQ(hash(out), 2396694103188722382u) << backend->name();
  }
}

}  // namespace
}  // namespace specdec
