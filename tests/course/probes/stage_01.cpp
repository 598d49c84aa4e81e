// Facts about stage 1: the tensors of layer 0, in the order in which they are computed, of a
// checkpoint so small that they can be printed. A fact needs only what is upstream of it.
#include <random>

#include "common/embedded_models.h"
#include "stages/01_naive_decoder/naive_llama.h"
#include "stages/programs/comparator/data_flow.h"
#include "tests/course/probes/facts.h"

namespace specdec {
namespace {

using course::fact;
using course::floats;

// 4 query heads of 8 elements on 2 key and value heads, and a large eps.
const Checkpoint& checkpoint() {
  static const Checkpoint tiny(embedded_target() / "../../checkpoints/plain_rope");
  return tiny;
}

void tensor_facts(TensorKind kind, const Rows& rows) {
  const int part = 8;
  const int parts = std::min(rows.width / part, 4);
  for (const int token : {0, 1, rows.count - 1}) {
    for (int i = 0; i < parts; i++) {
      const std::string where =
          has_heads(kind) ? fmt::format("head {}", i)
                          : fmt::format("elements {} to {}", part * i, part * i + part - 1);
      fact(fmt::format("layer 0, {} of token {}, {}", tensor_kind_name(kind), token, where),
           floats(rows[token].subspan(static_cast<std::size_t>(part * i), part)));
    }
  }
}

// Prints these tensors, and stops when it has seen the last of them.
void layer_facts(std::uint64_t seed, std::vector<TensorKind> wanted) {
  struct Seen {};
  std::mt19937_64 generator(seed);
  std::vector<TokenId> tokens(5);
  for (TokenId& token : tokens) {
    token =
        static_cast<TokenId>(generator() % static_cast<unsigned>(checkpoint().config().vocab_size));
  }
  try {
    NaiveLlama(checkpoint()).forward(tokens, [&](TensorKind kind, int layer, const Rows& rows) {
      if (layer != 0 || std::ranges::find(wanted, kind) == wanted.end()) return;
      tensor_facts(kind, rows);
      if (kind == wanted.back()) throw Seen();
    });
  } catch (const Seen&) {
  }
}

void rms_norm(std::uint64_t seed) { layer_facts(seed, {TensorKind::kAttnNorm}); }
void rope(std::uint64_t seed) { layer_facts(seed, {TensorKind::kQRope, TensorKind::kKRope}); }
void attention(std::uint64_t seed) { layer_facts(seed, {TensorKind::kAttnOut}); }
void mlp_inputs(std::uint64_t seed) {
  layer_facts(seed, {TensorKind::kMlpNorm, TensorKind::kGate, TensorKind::kUp});
}
void swiglu(std::uint64_t seed) { layer_facts(seed, {TensorKind::kMlpOut}); }
void residual_stream(std::uint64_t seed) { layer_facts(seed, {TensorKind::kResidual}); }

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  using namespace specdec;
  return course::run_probes(argc, argv,
                            {{"rms_norm", rms_norm},
                             {"rope", rope},
                             {"attention", attention},
                             {"mlp_inputs", mlp_inputs},
                             {"swiglu", swiglu},
                             {"residual_stream", residual_stream}});
}
