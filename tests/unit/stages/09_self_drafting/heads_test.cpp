// Heads against plain loops in double, and their files.
#include "stages/09_self_drafting/heads.h"

#include <cmath>
#include <fstream>
#include <random>

#include "common/checkpoint/safetensors_writer.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/engine_fixture.h"
#include "tests/test_support.h"
#include "tests/unit/stages/09_self_drafting/head_only.h"

namespace specdec {
namespace {

constexpr int kDim = 24, kHeads = 3, kHidden = 40;

std::vector<float> random_floats(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.3f);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

HostMatrix matrix_of(const std::vector<float>& values, int rows) {
  return {WeightType::kF32, std::as_bytes(std::span(values)), rows,
          static_cast<int>(values.size()) / rows};
}

double silu(double z) { return z / (1 + std::exp(-z)); }

double product(const std::vector<float>& weights, int row, std::span<const double> x) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); i++) {
    sum += double(weights[std::size_t(row) * x.size() + i]) * x[i];
  }
  return sum;
}

const std::vector<float> kUp = random_floats(kHidden * kDim, 1);
const std::vector<float> kDown = random_floats(kHeads * kDim * kHidden, 2);
const std::vector<float> kWeight = random_floats(kHeads * kDim * kDim, 3);
const std::vector<float> kBias = random_floats(kHeads * kDim, 4);

double blockwise(std::span<const double> row, int head, int i) {
  std::vector<double> hidden;
  for (int f = 0; f < kHidden; f++) hidden.push_back(silu(product(kUp, f, row)));
  return row[std::size_t(i)] + product(kDown, head * kDim + i, hidden);
}

double medusa(std::span<const double> row, int head, int i) {
  const int at = head * kDim + i;
  return row[std::size_t(i)] + silu(product(kWeight, at, row) + double(kBias[std::size_t(at)]));
}

std::unique_ptr<Heads> make(const std::string& kind, Backend& backend, int max_rows) {
  const auto load = [&](const std::vector<float>& values, int rows) {
    const HostMatrix matrix = matrix_of(values, rows);
    return backend.load_matrix(std::span(&matrix, 1));
  };
  if (kind == "medusa") {
    return std::make_unique<MedusaHeads>(backend, load(kWeight, kHeads * kDim), kBias, max_rows);
  }
  return std::make_unique<BlockwiseHeads>(backend, load(kUp, kHidden), load(kDown, kHeads * kDim),
                                          max_rows);
}

HostRows compute(Backend& backend, Heads& heads, const std::vector<float>& rows) {
  const int B = static_cast<int>(rows.size()) / kDim, n = B * heads.count();
  const DeviceArray<float> in(backend, rows.size()), out(backend, std::size_t(n * kDim));
  backend.upload(rows.data(), in.data(), rows.size() * sizeof(float));
  heads.compute(matrix(in, B, kDim), matrix(out, n, kDim));
  return host_rows(backend, matrix(out, n, kDim));
}

class HeadsTest : public ::testing::TestWithParam<std::string> {};

TEST_P(HeadsTest, AreWhatTheFormulaSays) {
  const auto backend = make_cpu_backend(2);
  const auto heads = make(GetParam(), *backend, 4);
  EXPECT_EQ(heads->count(), kHeads);
  EXPECT_EQ(heads->width(), kDim);
  const auto rows = random_floats(3 * kDim, 5);
  const HostRows got = compute(*backend, *heads, rows);
  for (int head = 0; head < kHeads; head++) {
    for (int b = 0; b < 3; b++) {
      const std::vector<double> row(rows.begin() + b * kDim, rows.begin() + (b + 1) * kDim);
      for (int i = 0; i < kDim; i++) {
        const double want = GetParam() == "medusa" ? medusa(row, head, i) : blockwise(row, head, i);
        EXPECT_NEAR(double(got[std::size_t(head * 3 + b)][std::size_t(i)]), want, 2e-6);
      }
    }
  }
}

TEST_P(HeadsTest, ARowsBitsDependOnNothingElse) {
  const auto plain = make_plain_backend(), cpu = make_cpu_backend(2);
  const auto rows = random_floats(4 * kDim, 6);
  const HostRows want = compute(*plain, *make(GetParam(), *plain, 4), rows);
  const auto heads = make(GetParam(), *cpu, 4);
  for (int b = 0; b < 4; b++) {
    const std::vector<float> row(rows.begin() + b * kDim, rows.begin() + (b + 1) * kDim);
    const HostRows got = compute(*cpu, *heads, row);
    for (int head = 0; head < kHeads; head++) {
      EXPECT_TRUE(equal_bits(got[std::size_t(head)], want[std::size_t(head * 4 + b)]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, HeadsTest, ::testing::Values("blockwise", "medusa"),
                         [](const auto& test) { return test.param; });

// A folder of heads, written as published.
class LoadHeads : public ::testing::Test {
 protected:
  using Tensors = std::vector<
      std::pair<std::string, std::pair<std::vector<std::int64_t>, const std::vector<float>*>>>;

  void write(const std::string& config, const Tensors& tensors) {
    std::ofstream(folder_.path() / "config.json") << config;
    std::vector<NamedTensor> named;
    for (const auto& [name, tensor] : tensors) {
      std::size_t elements = 1;
      for (const std::int64_t size : tensor.first) elements *= std::size_t(size);
      named.push_back(
          {name,
           {DType::kF32, tensor.first, std::as_bytes(std::span(*tensor.second).first(elements))}});
    }
    write_safetensors(folder_.path() / "model.safetensors", named);
  }
  static LlamaConfig target(int d_model) {
    LlamaConfig config;
    config.d_model = d_model;
    config.vocab_size = 3 * d_model;
    config.tied_head = true;
    return config;
  }
  LoadedHeads load_all(int d_model = kDim, int width = kDim) {
    return load_heads(folder_.path(), HeadOnly(target(d_model)), target(width), *backend_, 2);
  }
  std::unique_ptr<Heads> load(int d_model = kDim, int width = kDim) {
    return load_all(d_model, width).heads;
  }

  TemporaryDirectory folder_;
  std::unique_ptr<Backend> backend_ = make_plain_backend();
  const std::string medusa_ = R"({"medusa_num_heads": 2, "medusa_num_layers": 1})";
  const Tensors block_ = {{"0.0.linear.weight", {{kDim, kDim}, &kWeight}},
                          {"0.0.linear.bias", {{kDim}, &kBias}}};
};

// Both kinds compute what they were written as. The number of heads is the file's.
TEST_F(LoadHeads, AreWhatWasWritten) {
  const auto rows = random_floats(kDim, 7);
  write(medusa_, block_);
  const auto one = load();
  EXPECT_EQ(one->count(), 1);
  const HostRows got = compute(*backend_, *one, rows);
  EXPECT_TRUE(equal_bits(got[0], compute(*backend_, *make("medusa", *backend_, 1), rows)[0]));

  write(R"({"model_type": "blockwise", "num_heads": 3, "intermediate_size": 40})",
        {{"up.weight", {{kHidden, kDim}, &kUp}},
         {"down.weight", {{kHeads * kDim, kHidden}, &kDown}}});
  const HostRows all = compute(*backend_, *load(), rows);
  EXPECT_EQ(all, compute(*backend_, *make("blockwise", *backend_, 1), rows));
}

// Each head's second block reads what its own first one made.
TEST_F(LoadHeads, BlocksFollowEachOther) {
  const auto rows = random_floats(2 * kDim, 9);
  const std::vector<float> a = random_floats(kDim * kDim, 10), b = random_floats(kDim * kDim, 11),
                           c = random_floats(kDim * kDim, 12), d = random_floats(kDim * kDim, 13),
                           own = random_floats(std::size_t(3 * kDim * kDim), 8);
  const auto block = [&](const std::vector<float>& weight, const std::vector<float>& of) {
    write(medusa_,
          {{"0.0.linear.weight", {{kDim, kDim}, &weight}}, {"0.0.linear.bias", {{kDim}, &kBias}}});
    return compute(*backend_, *load(), of);
  };
  const auto flat = [](const HostRows& of) {
    std::vector<float> values;
    for (const auto& row : of) values.insert(values.end(), row.begin(), row.end());
    return values;
  };
  const HostRows head0 = block(c, flat(block(a, rows))), head1 = block(d, flat(block(b, rows)));
  Tensors two;
  for (const auto& [name, weight] : {std::pair("0.0", &a), {"1.0", &b}, {"0.1", &c}, {"1.1", &d}}) {
    two.push_back({name + std::string(".linear.weight"), {{kDim, kDim}, weight}});
    two.push_back({name + std::string(".linear.bias"), {{kDim}, &kBias}});
  }
  const std::string config = R"({"medusa_num_layers": 2})";
  write(config, two);
  const auto heads = load();
  EXPECT_EQ(heads->count(), 2);
  EXPECT_EQ(heads->bytes(), std::size_t(4 * kDim * kDim) * sizeof(float));
  HostRows want = head0;
  want.insert(want.end(), head1.begin(), head1.end());
  EXPECT_EQ(compute(*backend_, *heads, rows), want);
  two.push_back({"0.2.weight", {{3 * kDim, kDim}, &own}});
  write(config, two);
  EXPECT_ERROR(load_all(), "the tensor 1.2.weight is missing");
  write(config, {two.begin(), two.begin() + 6});
  EXPECT_ERROR(load(), "the tensor 1.1.linear.weight is missing");
  write(medusa_, {two.begin(), two.begin() + 8});
  EXPECT_ERROR(load(), "tensor 0.1.linear.");
}

// Inflated heads make of an inflated target's row, which is zero in its new dimensions, the same
// row with zeros.
TEST_F(LoadHeads, InflatedHeadsMakeTheSameRows) {
  constexpr int kLarge = 2 * kDim;
  const auto rows = random_floats(kDim, 7);
  std::vector<float> large(kLarge);
  std::ranges::copy(rows, large.begin());
  const DeviceArray<float> in(*backend_, kLarge), out(*backend_, std::size_t(kHeads * kLarge));
  backend_->upload(large.data(), in.data(), large.size() * sizeof(float));
  const auto check = [&] {
    const auto base = load(), heads = load(kDim, kLarge);
    EXPECT_EQ(heads->count(), base->count());
    EXPECT_EQ(heads->width(), kLarge);
    EXPECT_GE(heads->bytes(), 4 * base->bytes());
    const HostRows want = compute(*backend_, *base, rows);
    const DeviceRows made = matrix(out, heads->count(), kLarge);
    heads->compute(matrix(in, 1, kLarge), made);
    const HostRows got = host_rows(*backend_, made);
    for (int head = 0; head < heads->count(); head++) {
      for (int i = 0; i < kLarge; i++) {
        const float value = got[std::size_t(head)][std::size_t(i)];
        EXPECT_NEAR(value, i < kDim ? want[std::size_t(head)][std::size_t(i)] : 0,
                    i < kDim ? 2e-6 : 0);
      }
    }
  };
  write(medusa_, block_);
  check();
  write(R"({"model_type": "blockwise", "num_heads": 3, "intermediate_size": 40})",
        {{"up.weight", {{kHidden, kDim}, &kUp}},
         {"down.weight", {{kHeads * kDim, kHidden}, &kDown}}});
  check();
}

// What says the rows: the target's projection, its rows of fewer tokens, or one for each head.
TEST_F(LoadHeads, AndWhatSaysTheirRows) {
  write(medusa_, block_);
  ASSERT_EQ(load_all().says.size(), 1u);
  EXPECT_EQ(load_all().says[0].matrix, nullptr);
  const std::vector<float> own = random_floats(std::size_t(3 * kDim * kDim), 8);
  Tensors published = {block_[0],
                       block_[1],
                       {"0.1.weight", {{3 * kDim, kDim}, &own}},
                       {"1.0.linear.weight", block_[0].second},
                       {"1.0.linear.bias", block_[1].second},
                       {"1.1.weight", {{3 * kDim, kDim}, &own}}};
  write(medusa_, published);
  ASSERT_EQ(load_all().says.size(), 2u);
  EXPECT_EQ(load_all().says[1].matrix->rows(), 3 * kDim);
  published.pop_back();
  write(medusa_, published);
  EXPECT_ERROR(load_all(), "the tensor 1.1.weight is missing");
  write(R"({"medusa_num_layers": 1, "draft_vocab_size": 4})", block_);
  EXPECT_ERROR(load_all(), "the tensor d2t is missing");
}

TEST_F(LoadHeads, WhatDoesNotFitIsRefusedByName) {
  EXPECT_ERROR(load(), "config.json");
  write("{}", {});
  EXPECT_ERROR(load(), "neither Medusa heads, which have medusa_num_layers, nor blockwise ones");
  write(R"({"medusa_num_layers": 0})", block_);
  EXPECT_ERROR(load(), "medusa_num_layers is 0; it must be from 1 to");
  write(R"({"medusa_num_layers": 2})", block_);
  EXPECT_ERROR(load(), "the tensor 0.1.linear.weight is missing");
  write(R"({"medusa_num_layers": 1, "hidden_size": 25})", block_);
  EXPECT_ERROR(load(), "hidden_size is 25, and the target's is 24");
  write(medusa_, block_);
  EXPECT_ERROR(load(12, 12), "has the shape [24, 24], not [12, 12]: these heads belong to another");
  write(medusa_, {block_[0]});
  EXPECT_ERROR(load(), "the tensor 0.0.linear.bias is missing");
  write(medusa_, {block_[0], block_[1], {"0.1.weight", {{kDim, kDim}, &kWeight}}});
  EXPECT_ERROR(load(), "0.1.weight has the shape [24, 24], not [72, 24]");
  write(medusa_, {block_[0], block_[1], {"fc.weight", {{kDim, kDim}, &kWeight}}});
  EXPECT_ERROR(load(), "tensor fc.weight belongs to no heads that we can compute");
  write(R"({"model_type": "blockwise", "num_heads": 0, "intermediate_size": 40})", {});
  EXPECT_ERROR(load(), "num_heads is 0; it must be from 1 to");
}

}  // namespace
}  // namespace specdec
