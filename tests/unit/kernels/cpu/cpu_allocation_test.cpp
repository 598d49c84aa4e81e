// Decode loops allocate nothing: no operation does, once weights are loaded.
#include <new>

#include "tests/unit/allocation_counter.h"
#include "tests/unit/kernels/cpu/cpu_test_support.h"

namespace specdec {
namespace {

// Every operation once, at sizes that are split among threads.
void run_everything(Backend& backend, const WeightMatrix& weights, TestRows& a, TestRows& b,
                    TestRows& c) {
  const std::int32_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::int32_t starts[8] = {};
  std::int32_t ids[8] = {};
  const RowPlaces places{numbers, numbers, starts, numbers, 1};
  const HeadShape heads{4, 2, 512};
  backend.begin_burst();
  backend.embed(weights, numbers, a.view());
  backend.gather_rows(a.view(), numbers, b.view());
  backend.rms_norm(a.view(), b.row(0), 1e-5f, c.view());
  backend.matmul(a.view(), weights, b.view());
  backend.add(a.view(), b.view());
  backend.silu_mul(a.view(), b.view(), c.view());
  backend.rope_angles(numbers, b.row(0), a.view().columns(0, 256), c.view().columns(0, 256));
  backend.rope(b.view(), a.view().columns(0, 256), c.view().columns(0, 256));
  backend.store_kv(a.view().columns(0, 1024), b.view().columns(0, 1024), places,
                   {c.row(0), c.row(4)});
  backend.attention(a.view(), {c.row(0), c.row(4)}, places, heads, b.view());
  backend.argmax(a.view(), ids);
  backend.fill(a.view(), 0.0f);
  backend.copy(a.row(0), b.row(0), 100 * sizeof(float));
  backend.end_burst();
}

TEST(CpuAllocation, OperationsAllocateNothing) {
  TestNumbers numbers(31);
  const TestWeights weights = TestWeights::random(numbers, WeightType::kBF16, 2048, 2048);
  TestRows a = TestRows::random(numbers, 8, 2048), b = a, c = a;
  TestRows many = TestRows::random(numbers, 300, 2048), products = many;
  for (const int threads : {1, 3}) {
    Backend& backend = fast_backend(threads);
    const auto matrix = load(backend, weights);
    const std::size_t before = allocations();
    run_everything(backend, *matrix, a, b, c);
    backend.matmul(many.view(), *matrix, products.view());  // as a prefill does
    EXPECT_EQ(allocations(), before);
  }
  const std::size_t before = allocations();
  ::operator delete(::operator new(1));  // the counter counts
  EXPECT_EQ(allocations(), before + 1);
}

}  // namespace
}  // namespace specdec
