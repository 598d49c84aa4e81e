#pragma once
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "common/rope_frequencies.h"
#include "stages/programs/comparator/matrix.h"

namespace specdec {

// A Llama forward pass as plain loops, in which known mistakes can be planted by name. It shares no
// code with common/golden/, whose guesses it tests.
template <typename Real>
class PlantedLlama {
 public:
  using Row = std::vector<Real>;
  using Rows = std::vector<Row>;  // [T][width]

  // mistake: one of the names below, or "". If it belongs to a layer, it is made in `layer`. If it
  // belongs to a second pass that continues a first one, it is made in tokens from `from` on.
  PlantedLlama(const Checkpoint& checkpoint, std::string mistake, std::size_t layer = 1,
               int from = 5)
      : checkpoint_(checkpoint),
        config_(checkpoint.config()),
        mistake_(std::move(mistake)),
        bad_layer_(layer),
        from_(from),
        layer_(layer) {}

  std::map<std::string, Rows> forward(const std::vector<TokenId>& tokens) {
    const LlamaWeights& weights = checkpoint_.weights();
    Rows x;
    for (const TokenId id : tokens) {
      x.push_back(
          weight_rows(weights.embedding)[static_cast<std::size_t>(id + (at("id + 1")   ? 1
                                                                        : at("id - 1") ? -1
                                                                                       : 0))]);
    }
    if (at("embedding scaled")) scale(x, std::sqrt(Real(config_.d_model)));
    out_["embedding"] = x;
    for (layer_ = 0; layer_ < weights.layers.size(); layer_++) x = block(x);
    layer_ = bad_layer_;  // mistakes after the layers are made, too
    const Rows normed =
        at("final norm skipped before the head") ? x : norm(x, weights.final_norm, "final");
    out_["final_norm"] = norm(x, weights.final_norm, "final");
    out_["logits"] = matmul(at("final norm twice") ? norm(normed, weights.final_norm, "") : normed,
                            at("tied by mistake") ? weights.embedding : weights.head, "head");
    if (at("softmax")) softmax_rows(out_["logits"]);
    return out_;
  }

  std::vector<double> frequencies() const {
    const std::vector<float> result = frequencies_of_layer();
    return {result.begin(), result.end()};
  }

 private:
  bool at(const std::string& name) const { return mistake_ == name && layer_ == bad_layer_; }
  void dump(const std::string& name, const Rows& rows) {
    out_["layers." + std::to_string(layer_) + "." + name] = rows;
  }

  // The block's weights, or those of a neighbour if that mistake is planted.
  const LlamaLayerWeights& weights(const std::string& which) const {
    const std::vector<LlamaLayerWeights>& layers = checkpoint_.weights().layers;
    if (at(which + " of the layer before")) return layers[layer_ - 1];
    if (at(which + " of the next layer")) return layers[layer_ + 1];
    return layers[layer_];
  }

  Rows block(const Rows& x) {
    const LlamaLayerWeights& w = weights("");
    const bool wrong_norm = at("attn norm's weight of mlp");
    const Rows normed = norm(x, wrong_norm ? w.mlp_norm : weights("norm").attn_norm, "attn");
    dump("attn_norm", normed);
    const bool swapped = at("k and v swapped");
    Rows q = matmul(at("q without norm") ? x : normed, weights("q_proj").q_proj, "q");
    Rows k = matmul(normed, swapped ? w.v_proj : w.k_proj, "k");
    Rows v = matmul(normed, swapped ? w.k_proj : w.v_proj, "v");
    if (at("v turned")) v = rope(v);
    const Rows q_rope = rope(q);
    const Rows k_rope = rope(k);
    if (at("q turned in place")) q = q_rope;
    if (at("k turned in place")) k = k_rope;
    dump("q", q);
    dump("k", k);
    dump("v", v);
    dump("q_rope", q_rope);
    dump("k_rope", k_rope);
    const bool neither = at("q and k before RoPE");
    const Rows heads =
        attention(at("q before RoPE") || neither ? q : q_rope,
                  at("k before RoPE") || neither ? k : k_rope, at("keys for values") ? k_rope : v);
    dump("attn_out", heads);
    Rows h = at("no o_proj") ? heads : matmul(heads, w.o_proj, "o");
    if (at("attention added twice")) add(h, Rows(h));
    if (at("attention not added")) scale(h, 0);
    if (!at("attention without residual")) add(h, at("attention added to the norm") ? normed : x);
    if (at("attention's residual twice")) add(h, x);
    dump("attn_residual", h);
    return mlp(x, h, w);
  }

  Rows mlp(const Rows& x, const Rows& h, const LlamaLayerWeights& w) {
    const bool wrong_norm = at("mlp norm's weight of attn");
    const Rows normed = norm(at("mlp norm of the layer's input") ? x : h,
                             wrong_norm ? w.attn_norm : w.mlp_norm, "mlp");
    dump("mlp_norm", normed);
    const bool swapped = at("gate and up swapped");
    Rows gate = matmul(normed, swapped ? w.up_proj : w.gate_proj, "gate");
    Rows up = matmul(normed, swapped ? w.gate_proj : w.up_proj, "up");
    Rows product = gate;
    for (std::size_t t = 0; t < gate.size(); t++) {
      for (std::size_t i = 0; i < gate[t].size(); i++) {
        const Real g = gate[t][i];
        const Real u = up[t][i];
        product[t][i] = activation(g) * u;
        if (at("silu of up")) product[t][i] = g * silu(u);
        if (at("up missing")) product[t][i] = activation(g);
        if (at("gate plus up")) product[t][i] = activation(g) + u;
        if (at("gate after SiLU")) gate[t][i] = silu(g);
        if (at("up after the product")) up[t][i] = silu(g) * u;
      }
    }
    dump("gate", gate);
    dump("up", up);
    Rows y = matmul(product, w.down_proj, "down");
    if (at("mlp_out after the residual")) add(y, h);
    dump("mlp_out", y);
    if (at("mlp added twice")) add(y, Rows(y));
    if (at("mlp not added")) scale(y, 0);
    const Rows& residual = at("mlp added to the layer's input") ? x
                           : at("mlp added to the norm")        ? normed
                                                                : h;
    if (!at("mlp without residual")) add(y, residual);
    if (at("mlp's residual twice")) add(y, h);
    dump("residual", y);
    return y;
  }

  static Real silu(Real x) { return x / (1 + std::exp(-x)); }
  Real activation(Real x) const {
    if (at("no SiLU")) return x;
    if (at("GELU")) return x / 2 * (1 + std::erf(x / std::sqrt(Real(2))));
    if (at("tanh GELU")) {
      return x / 2 * (1 + std::tanh(Real(0.7978845608) * (x + Real(0.044715) * x * x * x)));
    }
    if (at("ReLU")) return x > 0 ? x : 0;
    if (at("sigmoid")) return 1 / (1 + std::exp(-x));
    return silu(x);
  }

  Rows norm(const Rows& x, const TensorView& view, const std::string& which) const {
    const Row weight = weight_rows(view)[0];
    const auto is = [&](const std::string& name) { return at(which + " norm: " + name); };
    if (is("skipped")) return x;
    Rows y = x;
    for (Row& row : y) {
      Real mean = 0, square = 0;
      for (const Real value : row) mean += value / Real(row.size());
      for (Real& value : row) value -= is("LayerNorm") ? mean : 0;
      for (const Real value : row) square += value * value;
      if (!is("sum")) square /= Real(row.size());
      Real eps = is("no eps") ? 0 : Real(config_.rms_norm_eps);
      if (is("eps 1e-6")) eps = Real(1e-6);
      if (is("eps 1e-5")) eps = Real(1e-5);
      const Real rms = is("eps outside") ? std::sqrt(square) + eps : std::sqrt(square + eps);
      for (std::size_t i = 0; i < row.size(); i++) {
        row[i] *= (is("no weight") ? 1 : is("1 + weight") ? 1 + weight[i] : weight[i]) / rms;
      }
    }
    return y;
  }

  Rows matmul(const Rows& x, const TensorView& view, const std::string& which) const {
    const Matrix m = to_matrix(view);
    const bool transposed = at(which + "_proj transposed");
    Rows y;
    for (const Row& row : x) {
      Row sums(m.rows);
      for (std::size_t j = 0; j < m.rows; j++) {
        for (std::size_t i = 0; i < m.cols; i++) {
          sums[j] += Real(m.values[transposed ? i * m.rows + j : j * m.cols + i]) * row[i];
        }
      }
      y.push_back(sums);
    }
    return y;
  }

  std::vector<float> frequencies_of_layer() const {
    double theta = at("theta 10000") ? 10000 : at("theta 500000") ? 500000 : config_.rope_theta;
    if (at("half the exponent")) theta = std::sqrt(theta);
    const bool plain = at("no scaling") || at("all scaled");
    std::vector<float> result =
        rope_frequencies(config_.head_dim, theta, plain ? std::nullopt : config_.rope_scaling);
    if (at("all scaled")) {
      for (float& frequency : result) frequency /= float(config_.rope_scaling->factor);
    }
    return result;
  }

  int position(int t, int count) const {
    if (at("position + 1")) return t + 1;
    if (at("position - 1")) return t - 1;
    if (at("positions begin again") && t >= from_) return t - from_;
    if (at("position stands still") && t >= from_) return from_ - 1;
    return at("last position") ? count - 1 : t;
  }

  Rows rope(const Rows& x) const {
    if (at("no RoPE")) return x;
    const auto d = static_cast<std::size_t>(config_.head_dim);
    const std::vector<float> turns = frequencies_of_layer();
    Rows y = x;
    for (std::size_t t = 0; t < x.size(); t++) {
      for (std::size_t head = 0; head < x[t].size(); head += d) {
        for (std::size_t i = 0; i < d / 2; i++) {
          const std::size_t a = head + (at("adjacent pairs") ? 2 * i : i);
          const std::size_t b = at("adjacent pairs") ? a + 1 : a + d / 2;
          const Real angle = float(position(int(t), int(x.size()))) * turns[i];
          const Real sine = at("turned back") ? -std::sin(angle) : std::sin(angle);
          y[t][a] = x[t][a] * std::cos(angle) - x[t][b] * sine;
          y[t][b] = x[t][b] * std::cos(angle) + x[t][a] * sine;
        }
      }
    }
    return y;
  }

  bool sees(int query, int key) const {
    if (at("not causal")) return true;
    if (at("one too many")) return key <= query + 1;
    if (at("not itself")) return key < query;
    if (at("not itself, but token 0")) return query == 0 ? key == 0 : key < query;
    if (at("not the first")) return key <= query && key > 0;
    if (at("only itself")) return key == query;
    if (at("cache not read") && query >= from_) return key >= from_ && key <= query;
    if (at("mask by row") && query >= from_) return key <= query - from_;
    return key <= query;
  }

  std::size_t kv_head(std::size_t head) const {
    const auto n_heads = std::size_t(config_.n_heads), n_kv = std::size_t(config_.n_kv_heads);
    return at("heads by modulo") ? head % n_kv : at("K/V head 0") ? 0 : head / (n_heads / n_kv);
  }

  Rows attention(const Rows& q, const Rows& k, const Rows& v) const {
    const auto d = std::size_t(config_.head_dim);
    Real factor = 1 / std::sqrt(Real(d));
    if (at("no 1/sqrt")) factor = 1;
    if (at("1/head_dim")) factor = 1 / Real(d);
    if (at("1/sqrt(d_model)")) factor = 1 / std::sqrt(Real(config_.d_model));
    Rows out(q.size(), Row(q[0].size()));
    for (std::size_t t = 0; t < q.size(); t++) {
      for (std::size_t head = 0; head < q[0].size() / d; head++) {
        Row weights(k.size());
        Real sum = 0;
        for (std::size_t s = 0; s < k.size(); s++) {
          if (!sees(int(t), int(s))) continue;
          Real score = 0;
          for (std::size_t i = 0; i < d; i++)
            score += q[t][head * d + i] * k[s][kv_head(head) * d + i];
          sum += weights[s] = std::exp(score * factor);
        }
        for (std::size_t s = 0; s < k.size(); s++) {
          for (std::size_t i = 0; i < d; i++) {
            out[t][head * d + i] += weights[s] / sum * v[s][kv_head(head) * d + i];
          }
        }
      }
    }
    return at("heads first") ? heads_first(out) : out;
  }

  Rows heads_first(const Rows& rows) const {
    const auto d = std::size_t(config_.head_dim);
    Row flat;
    for (std::size_t head = 0; head < rows[0].size(); head += d) {
      for (const Row& row : rows) flat.insert(flat.end(), &row[head], &row[head] + d);
    }
    Rows result;
    const std::size_t width = rows[0].size();
    for (std::size_t t = 0; t < rows.size(); t++) {
      result.emplace_back(&flat[t * width], &flat[t * width] + width);
    }
    return result;
  }

  static Rows weight_rows(const TensorView& view) {
    const Matrix matrix = to_matrix(view);
    Rows rows;
    for (std::size_t r = 0; r < matrix.rows; r++) {
      rows.emplace_back(matrix.row(r).begin(), matrix.row(r).end());
    }
    return rows;
  }
  static void scale(Rows& rows, Real factor) {
    for (Row& row : rows) {
      for (Real& value : row) value *= factor;
    }
  }
  static void add(Rows& rows, const Rows& other) {
    for (std::size_t t = 0; t < rows.size(); t++) {
      for (std::size_t i = 0; i < rows[t].size(); i++) rows[t][i] += other[t][i];
    }
  }
  static void softmax_rows(Rows& rows) {
    for (Row& row : rows) {
      Real sum = 0;
      for (Real& value : row) sum += value = std::exp(value);
      for (Real& value : row) value /= sum;
    }
  }

  const Checkpoint& checkpoint_;
  const LlamaConfig& config_;
  std::string mistake_;
  std::size_t bad_layer_;
  int from_;
  std::size_t layer_;
  std::map<std::string, Rows> out_;
};

}  // namespace specdec
