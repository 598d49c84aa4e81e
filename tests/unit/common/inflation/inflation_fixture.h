#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/json_value.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/elements.h"
#include "common/inflation/inflated_config.h"
#include "common/inflation/inflated_weights.h"
#include "tests/checkpoint_builder.h"
#include "tests/engine_fixture.h"
#include "tests/test_support.h"

namespace specdec {

inline constexpr WeightKind kLayerKinds[] = {
    WeightKind::kAttnNorm, WeightKind::kQProj,  WeightKind::kKProj,
    WeightKind::kVProj,    WeightKind::kOProj,  WeightKind::kMlpNorm,
    WeightKind::kGateProj, WeightKind::kUpProj, WeightKind::kDownProj};

// A few hundred weights, and a shape that is larger in every size.
inline Json tiny(bool tied) {
  Json config = tiny_config();
  config["tie_word_embeddings"] = tied;
  return config;
}

inline Json large(bool tied) {
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

}  // namespace specdec
