// Models in larger shapes: which corners are zeros, and that all else is random and is read. That
// the text stays the same: tests/golden/inflation_golden_test.
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "common/base/check.h"
#include "stages/programs/check/tensor_log.h"
#include "tests/unit/common/inflation/inflation_fixture.h"

namespace specdec {
namespace {

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

}  // namespace
}  // namespace specdec
