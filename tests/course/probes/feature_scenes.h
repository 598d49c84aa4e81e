#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "stages/09_self_drafting/feature_layer.h"
#include "stages/09_self_drafting/one_pass_model.h"
#include "tests/course/probes/self_scenes.h"
#include "tests/course/probes/tree_scenes.h"

// Feature layers and models of one pass, for the probe of stage 9.
namespace specdec::course {

inline DeviceArray<float> uploaded(Backend& backend, const std::vector<float>& values) {
  DeviceArray<float> array(backend, values.size());
  backend.upload(values.data(), array.data(), values.size() * sizeof(float));
  return array;
}

// A feature layer of random weights, and what it makes of two tokens and their features.
struct FeatureScene {
  static constexpr int kRows = 3;  // of the features; the first one belongs to another pass

  FeatureScene(const FeatureSwitches& switches, std::uint64_t seed, bool has_bias) {
    Backend& backend = *tiny.backend;
    const auto numbers = numbers_of(seed, E * 2 * E);
    const HostMatrix of_fc{WeightType::kF32, std::as_bytes(std::span(numbers)), E, 2 * E};
    layer.switches = switches;
    layer.fc = backend.load_matrix(std::span(&of_fc, 1));
    if (has_bias) layer.fc_bias = uploaded(backend, numbers_of(seed + 1, E));
    layer.embedding_norm = uploaded(backend, numbers_of(seed + 2, E));
    layer.feature_norm = uploaded(backend, numbers_of(seed + 3, E));
    layer.block = std::make_unique<LlamaModel>(
        Checkpoint(embedded_target() / "../../checkpoints/plain_rope"), backend);
  }
  void facts(std::uint64_t seed, const std::string& when) {
    Backend& backend = *tiny.backend;
    FeatureInput input(tiny.model, layer, kRows);
    const auto features = uploaded(backend, numbers_of(seed, kRows * E));
    const std::int32_t ids[] = {5, 17};
    const DeviceArray<std::int32_t> on_device(backend, 2);
    backend.upload(ids, on_device.data(), sizeof(ids));
    const DeviceArray<float> x(backend, 2 * E);
    backend.fill(matrix(x, 2, E), 0);
    input.set_rows(matrix(features, kRows, E), nullptr);
    const ConstDeviceRows read = input.enter(backend, on_device.data(), 1, matrix(x, 2, E));
    fact(fmt::format("width of what the attention reads, {}", when),
         read.data == nullptr ? 0 : read.width);
    row_facts("stream", matrix(x, 2, E), when);
    if (read.data != nullptr && read.data != x.data()) row_facts("attention's input", read, when);
  }
  void row_facts(const std::string& what, ConstDeviceRows rows, const std::string& when) {
    const auto values = to_host(*tiny.backend, rows);
    for (int i = 0; i < rows.rows; i++) {
      const auto row =
          std::span(values).subspan(std::size_t(i * rows.width), std::size_t(rows.width));
      fact(fmt::format("{}, row {}, {}", what, i, when), floats(row));
    }
  }

  TinyLlama tiny{0};
  const int E = tiny.model.config().d_model;
  FeatureLayer layer;
};

// Appends three tokens, and lets others look at what it is fed and says.
class ThreeAppended final : public OnePassModel {
 public:
  static constexpr TokenId kFirst = 20;
  explicit ThreeAppended(Backend& backend, int V)
      : OnePassModel(backend, V, {kFirst, kFirst + 1, kFirst + 2}, 4, 32) {}

  void begin(std::span<const DraftRequest>) override {}
  using OnePassModel::pass;
};

// The sequences of a round, and how many drafts each gets.
using Drafting = std::vector<std::pair<SequenceId, int>>;

// Sequences of a model, and rounds of them in one pass.
struct OnePassScene {
  static constexpr int V = 24;

  SequenceId prefilled(int tokens, int cached) {
    const SequenceId sequence = model.create();
    ids.push_back(own.create());
    contexts.push_back(tokens_of(std::uint64_t(sequence), tokens, V - 8));
    if (cached > 0)
      model.forward(Segment{sequence, std::span(contexts.back()).first(std::size_t(cached)), 0},
                    {});
    return sequence;
  }
  std::vector<DraftRequest> pass(const Drafting& rounds) {
    std::vector<DraftRequest> requests;
    for (const auto& [sequence, K] : rounds) {
      requests.push_back({.sequence = ids[std::size_t(sequence)],
                          .context = contexts[std::size_t(sequence)],
                          .spec_length = K,
                          .sampling = {},
                          .drafts = nullptr,
                          .target_sequence = sequence});
    }
    model.passes.clear();
    own.pass(model, requests);
    return requests;
  }
  void fed_facts(const std::string& when) {
    fact(fmt::format("passes, {}", when), std::ssize(model.passes));
    if (model.passes.empty()) return;
    for (const WatchedModel::Fed& fed : model.passes[0]) {
      fact(fmt::format("tokens fed to sequence {}, {}", fed.sequence, when), fed.tokens);
      fact(fmt::format("rows of logits of sequence {}, {}", fed.sequence, when), fed.logits_rows);
    }
  }
  // The likeliest token that is said of each draft: the table's is the last token that it was fed.
  void said_fact(const DraftRequest& r, const std::string& when) {
    const LogitsBuffer logits(own, 1);
    Tokens said;
    own.truncate(r.sequence, 0);
    std::span<const TokenId> next = r.context;
    const TokenId any = 0;
    for (int i = 0; i < r.spec_length; i++) {
      own.forward(Segment{r.sequence, next, 1}, logits.rows(0, 1));
      said.push_back(argmax(own.backend(), logits.rows(0, 1)));
      next = std::span(&any, 1);
    }
    fact(
        fmt::format("tokens whose rows say the drafts of sequence {}, {}", r.target_sequence, when),
        said);
  }

  Rows table{V, [](std::span<const TokenId> prefix) { return prefix.back(); }};
  TableModel below{V, table.row_of()};
  WatchedModel model{below};
  ThreeAppended own{below.backend(), V};
  const SequenceId unused = own.create();  // so that sequences of the two differ
  std::vector<SequenceId> ids;
  std::vector<Tokens> contexts;
};

}  // namespace specdec::course
