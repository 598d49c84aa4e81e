// Models in larger shapes: which corners are zeros, that all else is random and is read, and what
// a shape must be to hold a model. That the text stays the same:
// tests/golden/inflation_golden_test.
#include <cmath>
#include <functional>
#include <set>

#include "common/base/check.h"
#include "common/base/json_value.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/elements.h"
#include "common/inflation/inflated_config.h"
#include "common/inflation/inflated_weights.h"
#include "stages/programs/check/tensor_log.h"
#include "tests/checkpoint_builder.h"
#include "tests/engine_fixture.h"
#include "tests/test_support.h"

namespace specdec {
namespace {

constexpr WeightKind kLayerKinds[] = {
    WeightKind::kAttnNorm, WeightKind::kQProj,  WeightKind::kKProj,
    WeightKind::kVProj,    WeightKind::kOProj,  WeightKind::kMlpNorm,
    WeightKind::kGateProj, WeightKind::kUpProj, WeightKind::kDownProj};

// A few hundred weights, and a shape that is larger in every size.
Json tiny(bool tied) {
  Json config = tiny_config();
  config["tie_word_embeddings"] = tied;
  return config;
}

Json large(bool tied) {
  Json config = tiny(tied);
  config.update({{"hidden_size", 13},
                 {"intermediate_size", 19},
                 {"num_hidden_layers", 4},
                 {"num_attention_heads", 6},
                 {"num_key_value_heads", 3},
                 {"vocab_size", 27},
                 {"rms_norm_eps", 1},                // of these, none is a size
                 {"max_position_embeddings", 3},     //
                 {"eos_token_id", Json::array()}});  //
  config["rope_scaling"]["original_max_position_embeddings"] =
      tiny_config()["rope_scaling"]["original_max_position_embeddings"];
  return config;
}

class InflationTest : public ::testing::Test {
 protected:
  // The tiny model, of that type.
  Checkpoint base(bool tied = true, DType type = DType::kBF16) {
    const auto path = directory_.path() / fmt::format("base_{}_{}", tied, dtype_name(type));
    write_checkpoint(path, tiny(tied), llama_tensors(tiny(tied), type));
    return Checkpoint(path);
  }
  std::string shape(const Json& config) {
    return directory_.write("shape.json", config.dump()).string();
  }
  LlamaConfig config(const WeightSource& of, bool tied = true) {
    return inflated_config(of.config(), shape(large(tied)), "--inflate-target");
  }

  TemporaryDirectory directory_;
};

// The numbers of a tensor, [rows, columns].
struct Numbers {
  explicit Numbers(const Weight& weight)
      : columns(weight.view.shape.back()), values(to_float32(weight.view)) {}

  std::int64_t rows() const { return std::ssize(values) / columns; }
  float at(std::int64_t r, std::int64_t c) const { return values[std::size_t(r * columns + c)]; }

  std::int64_t columns;
  std::vector<float> values;
};

// ---- what is in the tensors

enum class Content { kOld, kZero, kRandom };

// What element (r, c) must be, by the argument why the residual's new dimensions stay zero. The
// base's matrix has old_rows and old_columns; in_base: the layer is one of the base's.
Content expected(WeightKind kind, bool in_base, std::int64_t r, std::int64_t old_rows,
                 std::int64_t c, std::int64_t old_columns) {
  const bool old_row = r < old_rows, old_column = c < old_columns;
  if (in_base && old_row && old_column) return Content::kOld;
  switch (kind) {
    case WeightKind::kEmbedding:  // a token's row is what it was; padding may be anything
      return old_row ? Content::kZero : Content::kRandom;
    case WeightKind::kVProj:
    case WeightKind::kGateProj:  // an output that must be 0 reads nothing but the new inputs
      return (!in_base || !old_row) && old_column ? Content::kZero : Content::kRandom;
    case WeightKind::kOProj:
    case WeightKind::kDownProj:  // an old input must not reach a new dimension
      return in_base && !old_row && old_column ? Content::kZero : Content::kRandom;
    default:
      return Content::kRandom;
  }
}

void expect_content(const WeightSource& base, const WeightSource& inflated, WeightKind kind,
                    int layer) {
  SCOPED_TRACE(fmt::format("kind {}, layer {}", static_cast<int>(kind), layer));
  const bool in_base = layer < base.config().n_layers;
  const Weight from = base.weight(kind, in_base ? layer : 0), got = inflated.weight(kind, layer);
  const Numbers old(from), now(got);
  const bool norm = from.view.shape.size() == 1;
  EXPECT_EQ(got.view.dtype, norm ? DType::kF32 : from.view.dtype);
  EXPECT_EQ(got.view.bytes.size() * 8, now.values.size() * std::size_t(dtype_bits(got.view.dtype)));
  const double scale = norm ? std::sqrt(double(old.columns) / double(now.columns)) : 1;
  int zeros = 0, positive = 0, random = 0;
  std::set<float> distinct;
  for (std::int64_t r = 0; r < now.rows(); r++) {
    for (std::int64_t c = 0; c < now.columns; c++) {
      const float value = now.at(r, c);
      const Content content = expected(kind, in_base, r, old.rows(), c, old.columns);
      if (content == Content::kOld) {
        ASSERT_FLOAT_EQ(value, static_cast<float>(old.at(r, c) * scale));
        if (!norm) {
          ASSERT_EQ(value, old.at(r, c));
        }
      } else if (content == Content::kZero) {
        ASSERT_EQ(value, 0) << r << ", " << c;
        zeros++;
      } else {
        ASSERT_NE(value, 0) << r << ", " << c;
        const double size = std::abs(value) * (norm ? 0.5 : std::sqrt(double(now.columns)));
        ASSERT_GE(size, 1.0 / 16);
        ASSERT_LE(size, 2);
        positive += value > 0;
        random++;
        distinct.insert(value);
      }
    }
  }
  if (random < 40) return;
  EXPECT_NEAR(positive, random / 2.0, 3 * std::sqrt(random)) << "either sign";
  EXPECT_GT(std::ssize(distinct), random / 3) << "numbers, not a pattern";
}

TEST_F(InflationTest, ZerosAreWhereTheyMustBeAndAllElseIsRandom) {
  for (const bool tied : {true, false}) {
    for (const DType type : {DType::kBF16, DType::kF16, DType::kF32}) {
      const Checkpoint from = base(tied, type);
      const InflatedWeights inflated(from, config(from, tied), 2);
      for (int layer = 0; layer < inflated.config().n_layers; layer++) {
        for (const WeightKind kind : kLayerKinds) expect_content(from, inflated, kind, layer);
      }
      for (const WeightKind kind : {WeightKind::kEmbedding, WeightKind::kFinalNorm}) {
        expect_content(from, inflated, kind, -1);
      }
      if (!tied) expect_content(from, inflated, WeightKind::kHead, -1);
    }
  }
}

TEST_F(InflationTest, MatricesHaveTheShapesOfTheLargeModel) {
  const Checkpoint from = base();
  const InflatedWeights inflated(from, config(from), 1);
  const auto shape_of = [&](WeightKind kind) { return inflated.weight(kind, 0).view.shape; };
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shape_of(WeightKind::kEmbedding), (Shape{27, 13}));
  EXPECT_EQ(shape_of(WeightKind::kQProj), (Shape{36, 13}));
  EXPECT_EQ(shape_of(WeightKind::kKProj), (Shape{18, 13}));
  EXPECT_EQ(shape_of(WeightKind::kVProj), (Shape{18, 13}));
  EXPECT_EQ(shape_of(WeightKind::kOProj), (Shape{13, 36}));
  EXPECT_EQ(shape_of(WeightKind::kGateProj), (Shape{19, 13}));
  EXPECT_EQ(shape_of(WeightKind::kUpProj), (Shape{19, 13}));
  EXPECT_EQ(shape_of(WeightKind::kDownProj), (Shape{13, 19}));
}

// Neither two rows of a matrix nor two matrices may be copies of each other.
TEST_F(InflationTest, RandomNumbersDependOnMatrixRowAndColumn) {
  const Checkpoint target(golden_model("target"));
  const InflatedWeights inflated(target,
                                 inflated_config(target.config(), "134m", "--inflate-target"), 2);
  std::set<std::vector<float>> rows;
  int n_rows = 0;
  for (const int layer : {0, 1, 7, 10}) {
    for (const WeightKind kind : kLayerKinds) {
      const Numbers numbers(inflated.weight(kind, layer));
      for (std::int64_t r = 0; r < numbers.rows(); r += 5, n_rows++) {
        const auto end = numbers.values.begin() + (r + 1) * numbers.columns;
        rows.insert(std::vector<float>(end - 64, end));  // to the right of every zero
      }
    }
  }
  EXPECT_EQ(std::ssize(rows), n_rows);
  // Neighbours, vectors, blocks and rows differ but by random. The base has 192 columns.
  const Numbers up(inflated.weight(WeightKind::kUpProj, 10));
  const auto n = static_cast<double>(up.values.size());
  for (const std::size_t distance : {1, 16, 64, 192, 768}) {
    int equal = 0;
    for (std::size_t i = distance; i < up.values.size(); i++) {
      equal += up.values[i] == up.values[i - distance];
    }
    EXPECT_LT(equal / n, 1.2 / 1024) << "ten random bits, " << distance << " apart";
  }
  double sum = 0, squares = 0;
  for (const double value : up.values) {
    sum += value;
    squares += value * value;
  }
  EXPECT_LT(std::abs(sum / n), 4 * std::sqrt(squares / n / n));
  EXPECT_NEAR(std::sqrt(squares / n * 768), 0.7, 0.3) << "a product is as large as what it reads";
}

TEST_F(InflationTest, ThreadsChangeNoBit) {
  const Checkpoint target(golden_model("draft"));
  const LlamaConfig config = inflated_config(target.config(), "14m", "--inflate-draft");
  const InflatedWeights one(target, config, 1), three(target, config, 3), again(target, config, 1);
  for (const WeightKind kind : kLayerKinds) {
    for (const int layer : {0, 1}) {
      const Weight want = one.weight(kind, layer), got = three.weight(kind, layer);
      EXPECT_TRUE(std::ranges::equal(got.view.bytes, want.view.bytes));
      EXPECT_TRUE(std::ranges::equal(again.weight(kind, layer).view.bytes, want.view.bytes));
    }
  }
}

// ---- the pass

// A model with a cache of its own.
struct Pass {
  Pass(const WeightSource& source, Backend& backend)
      : model(source, backend),
        cache(backend, model.kv_shape(), 1, 16),
        llama(model, cache, {.max_pass_rows = 8}) {}

  TensorLog run(const std::vector<TokenId>& tokens) { return record_forward(llama, tokens); }

  LlamaModel model;
  ContiguousKvCache cache;
  Llama llama;
};

Numbers tensor(const TensorLog& log, TensorKind kind, int layer) {
  const std::optional<TensorView> view = log.lookup()(tensor_name(kind, layer));
  SPECDEC_CHECK(view.has_value(), "a tensor");
  return Numbers(Weight{*view});
}

TEST_F(InflationTest, TheResidualsNewDimensionsStayZeroAndNewLayersAddNothing) {
  for (const bool tied : {true, false}) {
    const Checkpoint from = base(tied);
    const auto backend = make_cpu_backend(1);
    Pass small(from, *backend), big(InflatedWeights(from, config(from, tied), 1), *backend);
    const std::vector<TokenId> tokens{3, 1, 4, 1, 5, 9, 2, 6};
    const TensorLog want = small.run(tokens), got = big.run(tokens);
    for (int layer = 0; layer < 4; layer++) {
      for (const TensorKind kind : {TensorKind::kAttnResidual, TensorKind::kResidual}) {
        const Numbers x = tensor(got, kind, layer);
        const Numbers of_base =
            layer < 2 ? tensor(want, kind, layer) : tensor(got, TensorKind::kResidual, 1);
        for (std::int64_t r = 0; r < x.rows(); r++) {
          for (std::int64_t c = 0; c < 13; c++) {
            if (c >= 8) {
              ASSERT_EQ(x.at(r, c), 0);
            } else if (layer >= 2) {
              ASSERT_EQ(x.at(r, c), of_base.at(r, c));
            } else {
              ASSERT_NEAR(x.at(r, c), of_base.at(r, c), 1e-5 * (1 + std::abs(of_base.at(r, c))));
            }
          }
        }
      }
    }
  }
}

// A source that has NaN in one place of every row of one matrix: in row r at r + shift.
class Damaged final : public WeightSource {
 public:
  Damaged(const WeightSource& source, WeightKind kind, int layer, int shift)
      : source_(source), kind_(kind), layer_(layer), shift_(shift) {}

  const LlamaConfig& config() const override { return source_.config(); }
  Weight weight(WeightKind kind, int layer) const override {
    Weight weight = source_.weight(kind, layer);
    if (kind != kind_ || layer != layer_) return weight;
    const std::int64_t rows = weight.view.shape[0], columns = weight.view.shape[1];
    const std::size_t size = weight.view.bytes.size() / std::size_t(rows * columns);
    for (std::int64_t r = 0; r < rows; r++) {
      const std::int64_t element = r * columns + (r + shift_) % columns;
      std::memset(weight.memory.get() + std::size_t(element) * size, 0xff, size);  // a NaN
    }
    return weight;
  }

 private:
  const WeightSource& source_;
  WeightKind kind_;
  int layer_, shift_;
};

// Every element of every matrix, the zeros included: where it is NaN, so is the output that it is a
// factor of, in every row of the pass.
TEST_F(InflationTest, EveryWeightIsRead) {
  struct Product {
    WeightKind kind;
    TensorKind output;
  };
  const std::vector<Product> products = {
      {WeightKind::kQProj, TensorKind::kQ},        {WeightKind::kKProj, TensorKind::kK},
      {WeightKind::kVProj, TensorKind::kV},        {WeightKind::kOProj, TensorKind::kAttnResidual},
      {WeightKind::kGateProj, TensorKind::kGate},  {WeightKind::kUpProj, TensorKind::kUp},
      {WeightKind::kDownProj, TensorKind::kMlpOut}};
  const Checkpoint from = base(false);
  const InflatedWeights inflated(from, config(from, false), 1);
  const auto backend = make_cpu_backend(1);
  const auto expect_all_nan = [&](const Damaged& damaged, TensorKind output, int layer) {
    const TensorLog log = Pass(damaged, *backend).run({3, 1});
    for (const float value : tensor(log, output, layer).values) ASSERT_TRUE(std::isnan(value));
  };
  const TensorLog sound = Pass(inflated, *backend).run({3, 1});
  for (int layer = 0; layer < 4; layer++) {
    for (const auto& [kind, output] : products) {
      SCOPED_TRACE(fmt::format("kind {}, layer {}", static_cast<int>(kind), layer));
      for (const float value : tensor(sound, output, layer).values) {
        ASSERT_TRUE(std::isfinite(value));
      }
      const auto columns = static_cast<int>(inflated.weight(kind, layer).view.shape[1]);
      for (int shift = 0; shift < columns; shift++) {
        expect_all_nan(Damaged(inflated, kind, layer, shift), output, layer);
      }
    }
  }
  for (int shift = 0; shift < 13; shift++) {
    expect_all_nan(Damaged(inflated, WeightKind::kHead, -1, shift), TensorKind::kLogits, -1);
  }
}

TEST_F(InflationTest, APassReadsTheBytesOfTheLargeModel) {
  const Checkpoint draft(golden_model("draft"));
  const auto backend = make_plain_backend();  // without padding
  const LlamaConfig c = inflated_config(draft.config(), "14m", "--inflate-draft");
  Pass pass(InflatedWeights(draft, c, 2), *backend);
  pass.run({5, 6, 7});
  const std::int64_t layer = 256 * 64 * (4 + 1 + 1 + 4) + 3 * 256 * 1024;
  EXPECT_EQ(pass.llama.counters().weight_bytes, 2 * (2 * layer + 49152 * 256));
  EXPECT_EQ(pass.llama.counters().passes, 1);
}

// ---- shapes

TEST_F(InflationTest, NamedShapes) {
  const LlamaConfig target = Checkpoint(golden_model("target")).config();
  const LlamaConfig draft = Checkpoint(golden_model("draft")).config();
  const auto expect_sizes = [](const LlamaConfig& got, const LlamaConfig& base,
                               const std::vector<int>& sizes) {
    EXPECT_EQ((std::vector<int>{got.d_model, got.d_ff, got.n_layers, got.n_heads, got.n_kv_heads,
                                got.head_dim, got.vocab_size}),
              sizes);
    EXPECT_EQ(got.max_seq_len, base.max_seq_len);
    EXPECT_EQ(got.eos_ids, base.eos_ids);
    EXPECT_EQ(got.rope_theta, base.rope_theta);
    EXPECT_EQ(got.rope_scaling->factor, base.rope_scaling->factor);
    EXPECT_TRUE(got.tied_head);
    EXPECT_DOUBLE_EQ(got.rms_norm_eps * got.d_model, base.rms_norm_eps * base.d_model);
  };
  for (const auto& [name, published] :
       {std::pair("3b", llama_3_2_3b_config()), std::pair("1b", llama_3_2_1b_config())}) {
    const LlamaConfig& base = std::string(name) == "3b" ? target : draft;
    std::vector<int> sizes;
    for (const char* key :
         {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
          "num_key_value_heads", "head_dim", "vocab_size"}) {
      sizes.push_back(published.at(key));
    }
    expect_sizes(inflated_config(base, name, "--inflate-x"), base, sizes);
    // The published file itself says the same.
    expect_sizes(inflated_config(base, shape(published), "--inflate-x"), base, sizes);
  }
  expect_sizes(inflated_config(target, "134m", "--inflate-x"), target,
               {768, 3072, 11, 6, 2, 128, 49152});
  expect_sizes(inflated_config(draft, "14m", "--inflate-x"), draft,
               {256, 1024, 2, 4, 1, 64, 49152});
}

// Weights in matrices, with a tied head.
std::int64_t weights_of(const LlamaConfig& c) {
  const std::int64_t d = c.d_model, heads = c.n_heads * c.head_dim,
                     kv_heads = c.n_kv_heads * c.head_dim;
  return c.n_layers * d * (2 * heads + 2 * kv_heads + 3 * c.d_ff) + c.vocab_size * d;
}

TEST_F(InflationTest, TheSmallestSmolLM2FitsTheShapesOfItsRelatives) {
  LlamaConfig smollm2 = Checkpoint(golden_model("draft")).config();
  smollm2.d_model = 576;
  smollm2.d_ff = 1536;
  smollm2.n_layers = 30;
  smollm2.n_heads = 9;
  smollm2.n_kv_heads = 3;
  smollm2.head_dim = 64;
  smollm2.vocab_size = 49152;
  EXPECT_EQ(weights_of(inflated_config(smollm2, "360m", "--inflate-x")), 361'758'720);
  // SmolLM2-1.7B itself: 24 layers, d_model 2048, d_ff 8192, 32 heads on 32 of 64.
  LlamaConfig largest = smollm2;
  largest.d_model = 2048;
  largest.d_ff = 8192;
  largest.n_layers = 24;
  largest.n_heads = largest.n_kv_heads = 32;
  const LlamaConfig shape = inflated_config(smollm2, "1.7b", "--inflate-x");
  EXPECT_NEAR(static_cast<double>(weights_of(shape)) / static_cast<double>(weights_of(largest)), 1,
              0.002);
  EXPECT_EQ(shape.n_heads / shape.n_kv_heads, 3);
  for (const char* name : {"360m", "1.7b"}) {
    EXPECT_THAT(error_message([&] {
                  inflated_config(Checkpoint(golden_model("target")).config(), name,
                                  "--inflate-target");
                }),
                ::testing::HasSubstr("head_dim is 64, the model's 128"));
  }
}

TEST_F(InflationTest, ADirectoryOrAFileAndTheModelItself) {
  const Checkpoint target(golden_model("target"));
  const LlamaConfig same =
      inflated_config(target.config(), golden_model("target").string(), "--inflate-target");
  EXPECT_EQ(same.d_model, 192);
  EXPECT_EQ(same.rms_norm_eps, target.config().rms_norm_eps);
  const InflatedWeights weights(target, same, 2);
  for (const WeightKind kind : kLayerKinds) {
    EXPECT_EQ(Numbers(weights.weight(kind, 3)).values, Numbers(target.weight(kind, 3)).values);
  }
}

TEST_F(InflationTest, ShapesThatCannotHoldTheModelAreRefusedWithBothNumbers) {
  const LlamaConfig tiny_model = base().config();
  const auto refusal = [&](const Json& changes) {
    Json config = large(true);
    config.update(changes);
    return error_message([&] { inflated_config(tiny_model, shape(config), "--inflate-target X"); });
  };
  const std::string begin = "--inflate-target X: the shape cannot hold the model: its ";
  EXPECT_EQ(refusal({{"head_dim", 8}}),
            begin + "head_dim is 8, the model's 6; it must be the same");
  EXPECT_EQ(refusal({{"num_attention_heads", 9}}),
            begin + "number of heads a key-value head is 3, the model's 2; it must be the same");
  EXPECT_EQ(refusal({{"hidden_size", 7}}),
            begin + "d_model is 7, the model's 8; it must be as large or larger");
  EXPECT_EQ(refusal({{"intermediate_size", 11}}),
            begin + "d_ff is 11, the model's 12; it must be as large or larger");
  EXPECT_EQ(refusal({{"num_hidden_layers", 1}}),
            begin + "n_layers is 1, the model's 2; it must be as large or larger");
  EXPECT_EQ(refusal({{"num_attention_heads", 2}, {"num_key_value_heads", 1}}),
            begin + "n_kv_heads is 1, the model's 2; it must be as large or larger");
  EXPECT_EQ(refusal({{"vocab_size", 19}}),
            begin + "vocab_size is 19, the model's 20; it must be as large or larger");
  EXPECT_EQ(refusal({{"rope_theta", 10000}}),
            begin +
                "RoPE is theta 10000, scaled by 32 between 1 and 4 of 8192, the model's theta "
                "500000, scaled by 32 between 1 and 4 of 8192; it must be the same");
  EXPECT_EQ(refusal({{"rope_scaling", nullptr}}),
            begin +
                "RoPE is theta 500000, the model's theta 500000, scaled by 32 between 1 and 4 "
                "of 8192; it must be the same");
  EXPECT_EQ(refusal({{"tie_word_embeddings", false}}),
            begin + "tied_head is false, the model's true; it must be the same");
  EXPECT_EQ(refusal(Json::object()), "");
}

TEST_F(InflationTest, ShapesThatAreNone) {
  const LlamaConfig model = Checkpoint(golden_model("target")).config();
  const auto refusal = [&](const std::string& shape) {
    return error_message([&] { inflated_config(model, shape, "--inflate-target " + shape); });
  };
  EXPECT_EQ(
      refusal("7b"),
      "--inflate-target 7b: there is no such shape; give 3b, 1b, 1.7b, 360m, 134m, 14m or the "
      "path of a config.json");
  EXPECT_THAT(refusal("14m"), ::testing::HasSubstr("head_dim is 64, the model's 128"));
  EXPECT_THAT(refusal(directory_.path().string()), ::testing::HasSubstr("no such shape"));
  EXPECT_THAT(refusal(directory_.write("a.json", "{}").string()),
              ::testing::HasSubstr("a.json: model_type"));
}

}  // namespace
}  // namespace specdec
