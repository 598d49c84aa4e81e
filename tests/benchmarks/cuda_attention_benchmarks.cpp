// Attention with the heads of Llama 3.2 1B and 3B: the last M rows of one sequence, whose pages of
// 16 lie in no order. Keys and values are cold.
#include <numeric>

#include <fmt/format.h>

#include "kernels/cuda/attention/attention.h"
#include "tests/benchmarks/cuda_samples.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

constexpr int kPageSize = 16;

template <typename T>
DeviceArray<T> on_device(Backend& backend, const std::vector<T>& values) {
  DeviceArray<T> array(backend, values.size());
  backend.upload(values.data(), array.data(), values.size() * sizeof(T));
  return array;
}

std::vector<std::int32_t> counted(int first, int count) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

std::vector<std::int32_t> shuffled_pages(int count) {  // count: a power of two
  std::vector<std::int32_t> pages;
  for (int page = 0; page < count; ++page) pages.push_back(page * 5 % count);
  return pages;
}

class Sequence {
 public:
  Sequence(Backend& backend, const HeadShape& heads, int context, int rows)
      : heads_(heads),
        context_(context),
        rows_(rows),
        floats_(static_cast<std::size_t>(context) *
                static_cast<std::size_t>(heads.n_kv_heads * heads.head_dim)),
        copies_(copies_of(2 * floats_ * sizeof(float))),
        cache_(random_floats(backend, static_cast<std::size_t>(copies_) * 2 * floats_)),
        q_(random_floats(backend, static_cast<std::size_t>(rows * width()))),
        out_(backend, q_.size()),
        scratch_(backend, attention_scratch(rows, heads, context)),
        positions_(on_device(backend, counted(context - rows, rows))),
        table_starts_(
            on_device(backend, std::vector<std::int32_t>(static_cast<std::size_t>(rows)))),
        pages_(on_device(backend, shuffled_pages(context / kPageSize))) {}

  int copies() const { return copies_; }
  int width() const { return heads_.n_heads * heads_.head_dim; }
  const HeadShape& heads() const { return heads_; }
  ConstDeviceRows q() const { return matrix(q_, rows_, width()); }
  DeviceRows out() const { return matrix(out_, rows_, width()); }
  std::span<float> scratch() const { return {scratch_.data(), scratch_.size()}; }
  KvLayer cache(int copy) const {
    float* keys = cache_.data() + static_cast<std::size_t>(copy) * 2 * floats_;
    return {keys, keys + floats_};
  }
  RowPlaces places() const {
    return {.positions = positions_.data(),
            .table_starts = table_starts_.data(),
            .page_tables = pages_.data(),
            .page_size = kPageSize,
            .context = context_};
  }
  Work work() const {
    return {static_cast<double>(2 * floats_ * sizeof(float)), 4.0 * rows_ * width() * context_};
  }

 private:
  HeadShape heads_;
  int context_, rows_;
  std::size_t floats_;  // of keys, or of values
  int copies_;
  DeviceArray<float> cache_, q_, out_, scratch_;
  DeviceArray<std::int32_t> positions_, table_starts_, pages_;
};

using Attend = void (*)(const Sequence& sequence, int copy);

template <auto kernel>
void by(const Sequence& s, int copy) {
  kernel(s.q(), s.cache(copy), s.places(), s.heads(), s.out(), nullptr);
}
template <auto kernel>
void by_pieces(const Sequence& s, int copy) {
  kernel(s.q(), s.cache(copy), s.places(), s.heads(), s.out(), s.scratch(), nullptr);
}

struct Step {
  const char* name;
  Attend attend;
  int longest = 1 << 15;  // context
};
constexpr Step kSteps[] = {{"engine", by_pieces<attention>},  // step 4
                           {"3_grouped", by<attention_grouped>, 4096},
                           {"2_warp", by<attention_warp>, 4096},
                           {"1_naive", by<attention_naive>, 256}};

}  // namespace

// Rival: one_row, the same step at M = 1.
void add_attention_benchmarks(CudaBench& bench) {
  for (const auto& [shape, heads] :
       {std::pair<const char*, HeadShape>{"1b", {32, 8, 64}}, {"3b", {24, 8, 128}}}) {
    for (const int context : {256, 4096, 32'768}) {
      for (const Step& step : kSteps) {
        if (context > step.longest) continue;
        add_benchmark(
            fmt::format("attention/shape:{}/context:{}/step:{}", shape, context, step.name),
            {1, 6, 64}, [&bench, heads = heads, context, step](benchmark::State& state) {
              const int rows = static_cast<int>(state.range(0));
              const Sequence many(bench.backend, heads, context, rows);
              const Sequence one(bench.backend, heads, context, 1);
              measure(state, bench, many.work(), many.copies(),
                      [&](int copy) { step.attend(many, copy); },
                      {{"one_row", [&](int copy) { step.attend(one, copy); }}});
            });
      }
    }
  }
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
