// A feature layer against plain loops in double: chains and trees, each layout, each switch.
#include <cmath>

#include "tests/unit/stages/09_self_drafting/feature_fixture.h"

namespace specdec::batch {
namespace {

using Row = std::vector<double>;

double dot(std::span<const float> weights, const Row& x) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); i++) sum += double(weights[i]) * x[i];
  return sum;
}
Row sum(Row a, const Row& b) {
  for (std::size_t i = 0; i < a.size(); i++) a[i] += b[i];
  return a;
}
Row joined(Row a, const Row& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The layer of a folder, as the papers and their code have it.
class Reference {
 public:
  Reference(const FeatureFolder& folder, const FeatureLayer& layer) : is_(layer.switches) {
    for (const auto& [name, tensor] : folder.tensors) {
      if (tensor.type == DType::kF32) weights_[name] = tensor.floats();
    }
    const Checkpoint checkpoint(golden_model("draft"));
    embedding_ = to_float32(checkpoint.weights().embedding);
    const std::map<std::string_view, std::string> prefixes = {
        {"EAGLE", "layers.0."}, {"EAGLE-3", "midlayer."}, {"MTP", "model.layers.2."}};
    block_ = prefixes.at(is_.name);
    E_ = std::size_t(self_target().config().d_model);
  }

  // What follows the last of these tokens, whose rows of the target are known up to features.size()
  // tokens.
  Row logits(std::span<const TokenId> tokens, const std::vector<Row>& features) const {
    std::vector<Row> keys, values;
    Row fed, said;
    for (std::size_t i = 0; i + 1 < tokens.size(); i++) {
      const Row feature = i < features.size() ? taken(features[i]) : fed;
      const Row row = block(tokens[i + 1], feature, keys, values);
      said = is_.head_norm ? normed(row, head_norm()) : row;
      fed = is_.feeds_normed ? said : row;
    }
    if (is_.own_head) return product("lm_head.weight", said);
    Row result;
    for (std::size_t at = 0; at < embedding_.size(); at += E_) {
      result.push_back(dot(std::span(embedding_).subspan(at, E_), said));
    }
    return result;
  }

 private:
  const std::vector<float>& of(const std::string& name) const { return weights_.at(name); }
  Row product(const std::string& name, const Row& x) const {
    Row result;
    for (std::size_t at = 0; at < of(name).size(); at += x.size()) {
      result.push_back(dot(std::span(of(name)).subspan(at, x.size()), x));
    }
    return result;
  }
  Row normed(const Row& x, const std::string& name) const {
    double squares = 0;
    for (const double value : x) squares += value * value;
    Row result = x;
    for (std::size_t i = 0; i < x.size(); i++) {
      result[i] *= double(of(name)[i]) / std::sqrt(squares / double(x.size()) + 1e-5);
    }
    return result;
  }
  std::string head_norm() const {
    return is_.name == "MTP" ? block_ + "shared_head.norm.weight" : "norm.weight";
  }
  Row taken(const Row& of_target) const {
    const bool enters_earlier = is_.attention == FeatureAttention::kBoth;
    return enters_earlier ? product("fc.weight", of_target) : of_target;
  }

  Row block(TokenId token, const Row& feature, std::vector<Row>& keys,
            std::vector<Row>& values) const {
    const auto at = embedding_.begin() + std::ptrdiff_t(token) * std::ptrdiff_t(E_);
    Row embedded(at, at + std::ptrdiff_t(E_)), met = feature;
    const bool mtp = is_.name == "MTP";
    if (is_.normed) {
      embedded = normed(embedded, block_ + (mtp ? "enorm.weight" : "input_layernorm.weight"));
      met = normed(feature, block_ + (mtp ? "hnorm.weight" : "hidden_norm.weight"));
    }
    const Row both = is_.feature_first ? joined(met, embedded) : joined(embedded, met);
    Row x = is_.normed_stream ? met : feature, read = both;
    if (is_.attention != FeatureAttention::kBoth) {
      x = product(mtp ? block_ + "eh_proj.weight" : "fc.weight", both);
      if (weights_.contains("fc.bias")) {
        for (std::size_t i = 0; i < E_; i++) x[i] += double(of("fc.bias")[i]);
      }
      read = mtp ? normed(x, block_ + "input_layernorm.weight") : x;
    }
    x = sum(x, product(block_ + "self_attn.o_proj.weight", attended(read, keys, values)));
    const Row h = normed(x, block_ + "post_attention_layernorm.weight");
    Row gate = product(block_ + "mlp.gate_proj.weight", h);
    const Row up = product(block_ + "mlp.up_proj.weight", h);
    for (std::size_t i = 0; i < gate.size(); i++) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
    return sum(x, product(block_ + "mlp.down_proj.weight", gate));
  }

  Row attended(const Row& read, std::vector<Row>& keys, std::vector<Row>& values) const {
    constexpr std::size_t D = FeatureFolder::kHeadDim;
    const double position = double(keys.size());
    keys.push_back(turned(product(block_ + "self_attn.k_proj.weight", read), position));
    values.push_back(product(block_ + "self_attn.v_proj.weight", read));
    const Row q = turned(product(block_ + "self_attn.q_proj.weight", read), position);
    Row result;
    for (std::size_t head = 0; head < q.size(); head += D) {
      Row out(D);
      double total = 0;
      for (std::size_t j = 0; j < keys.size(); j++) {
        double score = 0;
        for (std::size_t i = 0; i < D; i++) score += q[head + i] * keys[j][i];
        const double weight = std::exp(score / std::sqrt(double(D)));
        total += weight;
        for (std::size_t i = 0; i < D; i++) out[i] += weight * values[j][i];
      }
      for (const double value : out) result.push_back(value / total);
    }
    return result;
  }
  // RoPE of the heads in a row.
  static Row turned(const Row& x, double position) {
    constexpr std::size_t D = FeatureFolder::kHeadDim, half = D / 2;
    Row result = x;
    for (std::size_t at = 0; at < x.size(); at += D) {
      for (std::size_t i = 0; i < half; i++) {
        const double angle = position * std::pow(10000.0, -double(2 * i) / double(D));
        const double a = x[at + i], b = x[at + i + half];
        result[at + i] = a * std::cos(angle) - b * std::sin(angle);
        result[at + i + half] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
    return result;
  }

  FeatureSwitches is_;
  std::map<std::string, std::vector<float>> weights_;
  std::vector<float> embedding_;
  std::string block_;
  std::size_t E_ = 0;
};

// What the target computes for these tokens, as the layer reads it.
std::vector<Row> rows_of_target(std::span<const TokenId> tokens, const std::vector<int>& places) {
  CachedLlama fresh(self_target(), kNoPages, int(tokens.size()));
  Backend& backend = self_target().backend();
  const int width = int(places.size()) * self_target().config().d_model;
  const DeviceArray<float> made(backend, tokens.size() * std::size_t(width));
  Outputs out;
  out.hidden = matrix(made, int(tokens.size()), width);
  out.places = places;
  fresh.llama.forward(Segment{fresh.llama.create(), tokens, 0, {}, {.rows = int(tokens.size())}},
                      out);
  std::vector<Row> rows;
  for (const auto& row : host_rows(backend, out.hidden)) rows.emplace_back(row.begin(), row.end());
  return rows;
}

// A layer that has begun a round after a text of 30 tokens.
struct Begun {
  explicit Begun(const FeatureFolder& folder, const std::function<void(FeatureLayer&)>& change = {})
      : layer(folder.load(self_target().backend())) {
    if (change) change(layer);
    std::mt19937 random(3);
    text = excerpt(random, 30);
    llama = make_llama(self_target(), 16, 0, 1);
    reference = std::make_unique<Reference>(folder, layer);
    rows = std::make_unique<TargetRows>(llama->llama, layer.places, 1, kPositions,
                                        TargetRows::Of::kAllTokens);
    const auto cached = std::span<const TokenId>(text).first(text.size() - 1);
    features = rows_of_target(cached, layer.places);
    auto cache = CachedLlama::make(*layer.block, 3, kPositions, 1);
    poison(*cache);
    Capacity room = Capacity::of_chain(9);
    model = std::make_unique<FeatureModel>(self_target(), std::move(layer), std::move(cache),
                                           embedded().tokenizer.vocab_size(), room);
    model->read(*rows);
    DraftRequest request;
    request.sequence = sequence = model->create();
    request.context = text;
    request.target_sequence = rows->create();
    rows->forward(Segment{request.target_sequence, cached, 0}, {});
    model->begin(std::span(&request, 1));
  }

  HostRows forward(std::span<const TokenId> tokens, std::span<const int> parents = {}) {
    const int n = parents.empty() ? 1 : int(tokens.size());
    const LogitsBuffer logits(*model, n);
    model->forward(Segment{sequence, tokens, n, parents}, logits.rows(0, n));
    return host_rows(model->backend(), logits.rows(0, n));
  }
  // Expects what the reference says after the text and these drafts.
  void expect(const std::vector<float>& got, const std::vector<TokenId>& drafts) const {
    std::vector<TokenId> path = text;
    path.insert(path.end(), drafts.begin(), drafts.end());
    const Row want = reference->logits(path, features);
    const std::vector<std::int32_t>& tokens = model->layer().head.tokens;
    std::vector<double> of_token(got.size(), -INFINITY);
    for (std::size_t i = 0; i < want.size(); i++) {
      of_token[tokens.empty() ? i : std::size_t(tokens[i])] = want[i];
    }
    double largest = 0;
    for (const double value : want) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < got.size(); i++) {
      if (int(i) >= embedded().tokenizer.vocab_size()) of_token[i] = -INFINITY;
      if (std::isinf(of_token[i])) {
        ASSERT_EQ(double(got[i]), of_token[i]) << i;
      } else {
        ASSERT_NEAR(double(got[i]), of_token[i], 2e-5 * largest) << i;
      }
    }
  }

  FeatureLayer layer;
  std::vector<TokenId> text;
  std::vector<Row> features;
  std::unique_ptr<CachedLlama> llama;
  std::unique_ptr<TargetRows> rows;
  std::unique_ptr<Reference> reference;
  std::unique_ptr<FeatureModel> model;
  SequenceId sequence = 0;
};

class FeatureLayerTest : public ::testing::TestWithParam<const char*> {
 protected:
  FeatureFolder folder_ = small_layer(GetParam());
};

TEST_P(FeatureLayerTest, AChainIsWhatTheReferenceSays) {
  Begun begun(folder_);
  begun.expect(begun.forward(begun.text)[0], {});
  std::vector<TokenId> drafts;
  for (const TokenId draft : {17, 1200, 5, 5}) {
    drafts.push_back(draft);
    begun.expect(begun.forward(std::span(&draft, 1))[0], drafts);
  }
  EXPECT_EQ(begun.model->length(begun.sequence), 34);
}

// Two nodes, then three after them, then one that follows the last of these.
TEST_P(FeatureLayerTest, EachNodeOfATreeIsWhatTheReferenceSaysOfItsPath) {
  Begun begun(folder_);
  begun.forward(begun.text);
  std::vector<int> parents = {-1, -1};
  const std::vector<TokenId> level1 = {17, 900}, level2 = {40, 50, 60}, level3 = {70};
  const HostRows first = begun.forward(level1, parents);
  begun.expect(first[0], {17});
  begun.expect(first[1], {900});
  parents.insert(parents.end(), {0, 1, 1});
  const HostRows second = begun.forward(level2, parents);
  begun.expect(second[0], {17, 40});
  begun.expect(second[1], {900, 50});
  begun.expect(second[2], {900, 60});
  parents.push_back(3);
  begun.expect(begun.forward(level3, parents)[0], {900, 50, 70});
}

// The text in two rounds, the second of which begins after an accepted draft.
TEST_P(FeatureLayerTest, ATextInPiecesIsTheSame) {
  Begun begun(folder_), pieces(folder_);
  const std::span<const TokenId> text = pieces.text;
  const HostRows want = begun.forward(text);
  pieces.model->forward(Segment{pieces.sequence, text.first(1), 0}, {});
  EXPECT_EQ(pieces.model->length(pieces.sequence), 1);
  pieces.model->forward(Segment{pieces.sequence, text.subspan(1, 7), 0}, {});
  EXPECT_EQ(pieces.forward(text.subspan(8)), want);
}

INSTANTIATE_TEST_SUITE_P(Layers, FeatureLayerTest, ::testing::Values("EAGLE", "EAGLE-3", "MTP"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

// Each switch that files may turn changes what the layer says, to what the reference says with it.
TEST(FeatureSwitchesTest, EachChangesTheRowAsTheReferenceHasIt) {
  struct Turned {
    const char* layout;
    const char* name;
    std::function<void(FeatureFolder&)> turn;
  };
  const auto set = [](const char* key) {
    return [key](FeatureFolder& f) { f.config[key] = true; };
  };
  const std::vector<Turned> all = {
      {"EAGLE-3", "norm_before_residual", set("norm_before_residual")},
      {"EAGLE-3", "norm_output", set("norm_output")},
      {"EAGLE-3", "places",
       [](FeatureFolder& f) {
         f.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = {1, 0, 1};
       }},
      {"EAGLE-3", "one place",
       [](FeatureFolder& f) {
         f.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = Json::array({1});
         const auto E = f.tensors.at("fc.weight").shape.front();
         f.add("fc.weight", {E, E}, 0.02f, 1);
       }},
      {"MTP", "target_hidden_post_norm",
       [](FeatureFolder& f) { f.config["target_hidden_post_norm"] = false; }},
      {"MTP", "chain_hidden_post_norm", set("chain_hidden_post_norm")},
      {"MTP", "mtp_hidden_states_first", set("mtp_hidden_states_first")},
      {"EAGLE", "bias", [](FeatureFolder& f) {
         f.config["bias"] = false;
         f.tensors.erase("fc.bias");
       }}};
  for (const auto& [layout, name, turn] : all) {
    SCOPED_TRACE(name);
    FeatureFolder folder = small_layer(layout);
    Begun base(folder);
    turn(folder);
    Begun turned(folder);
    const HostRows before = base.forward(base.text), after = turned.forward(turned.text);
    turned.expect(after[0], {});
    const TokenId draft = 17;
    const std::span<const TokenId> next(&draft, 1);
    const HostRows before_next = base.forward(next), after_next = turned.forward(next);
    turned.expect(after_next[0], {draft});
    EXPECT_NE(before_next, after_next);
  }
}

}  // namespace
}  // namespace specdec::batch
