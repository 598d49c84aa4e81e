// Plants each known mistake in a forward pass, and expects the comparator to name it, where it
// shows first, and nothing before that.
#include <algorithm>
#include <optional>

#include "stages/programs/comparator/comparator.h"
#include "stages/programs/comparator/wrong_variants.h"
#include "tests/test_support.h"
#include "tests/unit/stages/programs/comparator/golden_comparator_files.h"

namespace specdec {
namespace {

using ::testing::HasSubstr;

const std::vector<TokenId> kPrompt{1, 7, 33, 12, 48, 7, 20, 5, 41, 16};

struct Planted {
  std::string mistake;  // a name in PlantedLlama
  std::string tensor;   // where it shows first
  int token;
  std::string words;
};

const std::vector<Planted> kPlanted{
    {"embedding scaled", "embedding", 0, "multiplied by sqrt(d_model)"},
    {"id + 1", "embedding", 0, "token ids + 1"},
    {"id - 1", "embedding", 0, "token ids - 1"},
    {"attn norm: no weight", "layers.1.attn_norm", 0, "the norm's weight is missing"},
    {"mlp norm: no weight", "layers.1.mlp_norm", 0, "the norm's weight is missing"},
    {"final norm: no weight", "final_norm", 0, "the norm's weight is missing"},
    {"attn norm: skipped", "layers.1.attn_norm", 0, "the norm is skipped"},
    {"mlp norm: skipped", "layers.1.mlp_norm", 0, "the norm is skipped"},
    {"final norm: skipped", "final_norm", 0, "the norm is skipped"},
    {"attn norm: no eps", "layers.1.attn_norm", 0, "eps (rms_norm_eps) is missing"},
    {"final norm: eps outside", "final_norm", 0, "eps is added outside the root"},
    {"attn norm: eps 1e-6", "layers.0.attn_norm", 0, "but 1e-6"},
    {"attn norm: eps 1e-5", "layers.0.attn_norm", 0, "but 1e-5"},
    {"attn norm: sum", "layers.1.attn_norm", 0, "root of the sum of squares"},
    {"mlp norm: LayerNorm", "layers.1.mlp_norm", 0, "the mean is subtracted"},
    {"attn norm: 1 + weight", "layers.1.attn_norm", 0, "(1 + weight)"},
    {"attn norm's weight of mlp", "layers.1.attn_norm", 0, "post_attention_layernorm instead of"},
    {"mlp norm's weight of attn", "layers.1.mlp_norm", 0, "input_layernorm instead of post"},
    {"norm of the layer before", "layers.1.attn_norm", 0,
     "norm's weights are the previous layer's"},
    {"norm of the next layer", "layers.1.attn_norm", 0, "norm's weights are the next layer's"},
    {"mlp norm of the layer's input", "layers.1.mlp_norm", 0, "must read attn_residual"},
    {"q without norm", "layers.1.q", 0, "the norm is skipped"},
    {"q_proj of the layer before", "layers.1.q", 0, "the weights are the previous layer's"},
    {"q_proj of the next layer", "layers.1.q", 0, "the weights are the next layer's"},
    {"q_proj transposed", "layers.1.q", 0, "read transposed"},
    {"k_proj transposed", "layers.1.k", 0, "read transposed"},
    {"v_proj transposed", "layers.1.v", 0, "read transposed"},
    {"o_proj transposed", "layers.1.attn_residual", 0, "read transposed"},
    {"gate_proj transposed", "layers.1.gate", 0, "read transposed"},
    {"up_proj transposed", "layers.1.up", 0, "read transposed"},
    {"down_proj transposed", "layers.1.mlp_out", 0, "read transposed"},
    {"head_proj transposed", "logits", 0, "read transposed"},
    {"k and v swapped", "layers.1.k", 0, "k and v are swapped"},
    {"q turned in place", "layers.1.q", 1, "RoPE has already turned q"},
    {"k turned in place", "layers.1.k", 1, "RoPE has already turned k"},
    {"v turned", "layers.1.v", 1, "RoPE is applied to v"},
    {"no RoPE", "layers.1.q_rope", 1, "RoPE is not applied"},
    {"adjacent pairs", "layers.1.q_rope", 1, "RoPE pairs adjacent elements"},
    {"turned back", "layers.1.q_rope", 1, "the wrong way round"},
    {"no scaling", "layers.1.q_rope", 1, "scaling (rope_scaling) is missing"},
    {"all scaled", "layers.1.q_rope", 1, "divides all frequencies"},
    {"theta 10000", "layers.1.q_rope", 1, "theta is 10000"},
    {"theta 500000", "layers.1.q_rope", 1, "theta is 500000"},
    {"half the exponent", "layers.1.q_rope", 1, "fall too slowly"},
    {"position + 1", "layers.1.q_rope", 0, "one too high"},
    {"position - 1", "layers.1.q_rope", 0, "one too low"},
    {"positions begin again", "layers.1.q_rope", 5, "begin at 0 again"},
    {"position stands still", "layers.1.q_rope", 5, "does not advance"},
    {"last position", "layers.1.q_rope", 0, "the position of the last one"},
    {"not causal", "layers.1.attn_out", 0, "not causal"},
    {"one too many", "layers.1.attn_out", 0, "also sees the next token"},
    {"not itself", "layers.1.attn_out", 0, "token 0 is NaN: a softmax over no keys"},
    {"not itself", "layers.1.attn_out", 0,
     "And in the other tokens: attention's mask is off by one: a token does not see itself"},
    {"not itself, but token 0", "layers.1.attn_out", 1, "a token does not see itself"},
    {"not the first", "layers.1.attn_out", 0, "leaves out the first token"},
    {"only itself", "layers.1.attn_out", 1, "sees only itself"},
    {"cache not read", "layers.1.attn_out", 5, "is the cache read?"},
    {"mask by row", "layers.1.attn_out", 5, "counts the rows of this pass"},
    {"no 1/sqrt", "layers.1.attn_out", 1, "not divided by sqrt(head_dim)"},
    {"1/head_dim", "layers.1.attn_out", 1, "divided by head_dim"},
    {"1/sqrt(d_model)", "layers.1.attn_out", 1, "divided by sqrt(d_model)"},
    {"heads by modulo", "layers.1.attn_out", 0, "h % n_kv_heads"},
    {"K/V head 0", "layers.1.attn_out", 0, "K/V head 0"},
    {"k before RoPE", "layers.1.attn_out", 1, "k before RoPE"},
    {"q before RoPE", "layers.1.attn_out", 1, "q before RoPE"},
    {"q and k before RoPE", "layers.1.attn_out", 1, "q and k before RoPE"},
    {"keys for values", "layers.1.attn_out", 0, "keys instead of values"},
    {"heads first", "layers.1.attn_out", 0, "not put side by side"},
    {"attention without residual", "layers.1.attn_residual", 0, "the residual is not added"},
    {"attention's residual twice", "layers.1.attn_residual", 0, "the residual is added twice"},
    {"attention added to the norm", "layers.1.attn_residual", 0,
     "added to the normed input: add it to what enters"},
    {"attention not added", "layers.1.attn_residual", 0, "attention's output is not added"},
    {"attention added twice", "layers.1.attn_residual", 0, "attention's output is added twice"},
    {"no o_proj", "layers.1.attn_residual", 0, "o_proj is missing"},
    {"gate and up swapped", "layers.1.gate", 0, "gate and up are swapped"},
    {"gate after SiLU", "layers.1.gate", 0, "SiLU is already applied"},
    {"up after the product", "layers.1.up", 0, "already multiplied by silu(gate)"},
    {"silu of up", "layers.1.mlp_out", 0, "SiLU belongs to gate"},
    {"no SiLU", "layers.1.mlp_out", 0, "SiLU is missing"},
    {"GELU", "layers.1.mlp_out", 0, "GELU (by erf)"},
    {"tanh GELU", "layers.1.mlp_out", 0, "GELU (by tanh)"},
    {"ReLU", "layers.1.mlp_out", 0, "ReLU instead of SiLU"},
    {"sigmoid", "layers.1.mlp_out", 0, "a sigmoid instead of SiLU"},
    {"up missing", "layers.1.mlp_out", 0, "up is missing"},
    {"gate plus up", "layers.1.mlp_out", 0, "must be multiplied"},
    {"mlp_out after the residual", "layers.1.mlp_out", 0, "the residual is already added"},
    {"mlp without residual", "layers.1.residual", 0, "the residual is not added"},
    {"mlp's residual twice", "layers.1.residual", 0, "the residual is added twice"},
    {"mlp added to the norm", "layers.1.residual", 0,
     "added to the normed input: add it to attn_residual"},
    {"mlp added twice", "layers.1.residual", 0, "mlp_out is added twice"},
    {"mlp not added", "layers.1.residual", 0, "mlp_out is not added"},
    {"mlp added to the layer's input", "layers.1.residual", 0, "attention's part is lost"},
    {"final norm skipped before the head", "logits", 0, "the final norm is skipped"},
    {"final norm twice", "logits", 0, "applied twice"},
    {"tied by mistake", "logits", 0, "the head is the embedding"},
    {"softmax", "logits", 0, "a softmax is already applied"},
};

class PlantedMistakeTest : public ::testing::Test {
 protected:
  PlantedMistakeTest() {
    write_comparator_checkpoint(directory_.path());
    checkpoint_.emplace(directory_.path());
    const GoldenBuilder builder(*checkpoint_, kPrompt, kPrompt.size());
    golden_.emplace(builder.write(directory_.path()));
  }
  ComparisonResult compared(const std::string& mistake, std::size_t layer) const {
    const Dump dump(PlantedLlama<float>(*checkpoint_, mistake, layer).forward(kPrompt));
    return compare(*golden_, dump.lookup(), {.checkpoint = &*checkpoint_});
  }

  TemporaryDirectory directory_;
  std::optional<Checkpoint> checkpoint_;
  std::optional<GoldenFile> golden_;
};

TEST_F(PlantedMistakeTest, IsNamed) {
  for (const Planted& planted : kPlanted) {
    SCOPED_TRACE(planted.mistake);
    const int layer = parse_tensor_name(planted.tensor)->layer;
    const ComparisonResult result =
        compared(planted.mistake, layer < 0 ? 1 : static_cast<std::size_t>(layer));
    EXPECT_EQ(result.status, ComparisonStatus::kDiffers) << result.report;
    EXPECT_EQ(result.tensor, planted.tensor) << result.report;
    EXPECT_EQ(result.layer, layer) << result.report;
    EXPECT_EQ(result.token, planted.token) << result.report;
    EXPECT_THAT(result.cause, HasSubstr(planted.words)) << result.report;
    EXPECT_THAT(result.report, HasSubstr("likely cause: " + result.cause));
  }
}

// Swapped tensors are told apart in both places, though the first one hides the second.
TEST_F(PlantedMistakeTest, SecondHalvesOfSwaps) {
  for (const auto& [from, to] :
       {std::pair("layers.1.k", "layers.1.v"), std::pair("layers.1.gate", "layers.1.up")}) {
    Dump dump(PlantedLlama<float>(*checkpoint_, "").forward(kPrompt));
    dump.values[to] = dump.values[from];
    const ComparisonResult result = compare(*golden_, dump.lookup());
    EXPECT_EQ(result.tensor, to);
    EXPECT_THAT(result.cause, HasSubstr("are swapped: this is " + std::string(from).substr(9)));
  }
}

// A mistake that nothing here plants is one that nobody has seen recognised.
TEST_F(PlantedMistakeTest, EveryKnownMistakeIsPlanted) {
  for (const WrongVariant& variant : wrong_variants()) {
    const bool is_planted = std::ranges::any_of(kPlanted, [&](const Planted& planted) {
      return variant.words.find(planted.words) != std::string::npos;
    });
    const bool is_swap = variant.words.find("are swapped: this is") != std::string::npos;
    EXPECT_TRUE(is_planted || is_swap) << variant.words;
  }
}

}  // namespace
}  // namespace specdec
