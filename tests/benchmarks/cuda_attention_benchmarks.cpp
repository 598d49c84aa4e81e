// Attention with the heads of Llama 3.2 1B and 3B: the last M rows of one sequence. Keys and values
// are cold.
#include <fmt/format.h>

#include "kernels/cuda/attention/attention.h"
#include "tests/benchmarks/cuda_cases.h"

namespace specdec::cuda::inline SPECDEC_CUDA_BUILD {
namespace {

// Inputs, and what the engine's kernel needs for M rows.
struct Attention {
  Attention(Backend& backend, const HeadShape& heads, int context, int most_rows)
      : inputs(backend, heads, context, most_rows,
               copies_of(std::size_t{8} * static_cast<std::size_t>(context) *
                         static_cast<std::size_t>(heads.n_kv_heads * heads.head_dim))),
        scratch(backend, attention_scratch(most_rows, heads, context)),
        blocks_done(backend, static_cast<std::size_t>(most_rows * heads.n_heads)) {
    const std::vector<unsigned> zeros(blocks_done.size(), 0);
    backend.upload(zeros.data(), blocks_done.data(), zeros.size() * sizeof(unsigned));
  }

  AttentionInputs inputs;
  DeviceArray<float> scratch;
  DeviceArray<unsigned> blocks_done;
};

using Attend = void (*)(const Attention& attention, int rows, int copy);

template <auto kernel>
void by(const Attention& a, int rows, int copy) {
  kernel(a.inputs.q(rows), a.inputs.layer(copy), a.inputs.places(rows), a.inputs.heads(),
         a.inputs.out(rows), nullptr);
}
// With its default, which a pointer to it would not have.
void grouped(ConstDeviceRows q, const KvLayer& cache, const RowPlaces& places,
             const HeadShape& heads, DeviceRows out, cudaStream_t stream) {
  attention_grouped(q, cache, places, heads, out, stream);
}
template <auto kernel>
void by_pieces(const Attention& a, int rows, int copy) {
  kernel(a.inputs.q(rows), a.inputs.layer(copy), a.inputs.places(rows), a.inputs.heads(),
         a.inputs.out(rows),
         {{a.scratch.data(), a.scratch.size()}, {a.blocks_done.data(), a.blocks_done.size()}},
         nullptr);
}

struct Step {
  const char* name;
  Attend attend;
  int shortest, longest;  // context
};
constexpr Step kSteps[] = {{"engine", by_pieces<attention>, 64, 1 << 15},  // step 4
                           {"3_grouped", by<grouped>, 256, 4096},
                           {"2_warp", by<attention_warp>, 256, 4096},
                           {"1_naive", by<attention_naive>, 256, 256}};

}  // namespace

// Rival: plain, the same step at M = 1.
void add_attention_benchmarks(KernelProgram& program, Backend& backend) {
  for (const auto& [shape, heads] : {std::pair("1b", kHeads1b), {"3b", kHeads3b}}) {
    for (const int context : {64, 256, 4096, 32'768}) {
      for (const Step& step : kSteps) {
        if (context < step.shortest || context > step.longest) continue;
        program.add(
            fmt::format("attention/shape:{}/context:{}/step:{}", shape, context, step.name),
            {1, 6, 16, 64}, [&backend, heads = heads, context, step](int rows) {
              const auto attention = std::make_shared<Attention>(backend, heads, context, rows);
              const auto job = [attention, step](int m) {
                return [attention, step, m](int copy) { step.attend(*attention, m, copy); };
              };
              const AttentionInputs& inputs = attention->inputs;
              return Case{inputs.work(rows), job(rows), {{"plain", job(1)}}, inputs.layers()};
            });
      }
    }
  }
}

}  // namespace specdec::cuda::inline SPECDEC_CUDA_BUILD
