#include "common/llama.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/error.h"
#include "kernels/int_size.h"

namespace specdec {
namespace {

// Keeps the backend's threads awake during a call.
class Burst {
 public:
  explicit Burst(Backend& backend) : backend_(backend) { backend_.begin_burst(); }
  ~Burst() { backend_.end_burst(); }
  Burst(const Burst&) = delete;
  Burst& operator=(const Burst&) = delete;

 private:
  Backend& backend_;
};

// A pass hands out rows of at most this many places of the residual stream.
constexpr int kMostPlaces = 4;

// Packs numbers into one: adds `offset` to each, and keeps `bits` bits of it.
std::int64_t packed(std::span<const int> numbers, int bits, int offset = 0) {
  std::int64_t result = 0;
  for (const int number : numbers) {
    const std::int64_t shifted = std::int64_t{number} + offset;
    SPECDEC_CHECK(0 <= shifted && shifted < std::int64_t{1} << bits, "{} bits, not {}", bits,
                  number);
    result = result << bits | shifted;
  }
  return result;
}

}  // namespace

Llama::Llama(const LlamaModel& model, KvCache& cache, const LlamaOptions& options)
    : model_(model),
      cache_(cache),
      options_(options),
      ops_(&model.backend()),
      plan_(cache, options.max_pass_rows, largest_context()) {
  const LlamaConfig& c = model.config();
  const int T = options.max_pass_rows;
  const HeadShape heads = model.heads();
  const auto rows_of = [&](int width) {
    return DeviceArray<float>(model.backend(), std::ptrdiff_t{T} * width);
  };
  x_ = rows_of(c.d_model);
  normed_ = rows_of(c.d_model);
  qkv_ = rows_of((heads.n_heads + 2 * heads.n_kv_heads) * heads.head_dim);
  attended_ = rows_of(heads.n_heads * heads.head_dim);
  projected_ = rows_of(c.d_model);
  gate_up_ = rows_of(2 * c.d_ff);
  activated_ = rows_of(c.d_ff);
  cosines_ = rows_of(heads.head_dim / 2);
  sines_ = rows_of(heads.head_dim / 2);
  extensions_.reserve(T);
  model.backend().reserve_attention(T, heads, largest_context());
  recorder_ = model.backend().make_recorder();
}

int Llama::largest_context() const { return std::min(max_seq_len(), cache_.memory().slots()); }

// [snippet forward]
void Llama::forward(std::span<const Segment> batch, const Outputs& out) {
  check(batch, out);
  extend_cache(batch);  // or throws, and nothing has changed
  try {
    const Burst burst(backend());
    run_passes(batch, out);
  } catch (...) {  // a device that failed, no memory
    take_back(extensions_);
    throw;
  }
  ++counters_.forwards;
}

// Plans the batch's tokens as rows, and computes a pass whenever it is full.
void Llama::run_passes(std::span<const Segment> batch, const Outputs& out) {
  int logits_done = 0, hidden_done = 0;
  const auto flush = [&] {
    Outputs of_pass = out;
    of_pass.logits = out.logits.slice(logits_done, plan_.wanted_rows());
    of_pass.hidden = out.hidden.slice(hidden_done, plan_.hidden_rows());
    run_pass(of_pass);
    rows_done_ += plan_.rows();
    logits_done += plan_.wanted_rows();
    hidden_done += plan_.hidden_rows();
    plan_.clear();
  };
  plan_.clear();
  rows_done_ = 0;
  for (const Segment& segment : batch) {
    for (int next = 0; next < int_size(segment.tokens);) {
      next = plan_.add(segment, next);
      if (plan_.is_full()) flush();
    }
  }
  if (plan_.rows() > 0) flush();
}
// [end snippet forward]

void Llama::forward_chosen(std::span<const SequenceId> sequences, const std::int32_t* ids,
                           DeviceRows logits) {
  SPECDEC_CHECK(
      std::ssize(sequences) <= options_.max_pass_rows && logits.rows == std::ssize(sequences),
      "a row of logits for each of up to {} sequences", options_.max_pass_rows);
  extensions_.clear();
  for (const SequenceId sequence : sequences) {
    check_length(sequence, 1);
    extensions_.push_back({sequence, 1});
  }
  cache_.extend(extensions_);
  try {
    plan_.clear();
    rows_done_ = 0;
    for (const SequenceId sequence : sequences) plan_.add_chosen(sequence);
    run_pass(logits, ids);
  } catch (...) {
    take_back(extensions_);
    throw;
  }
  ++counters_.forwards;
}

void Llama::check(std::span<const Segment> batch, const Outputs& out) const {
  const DeviceRows& logits = out.logits;
  int wanted = 0;
  for (const Segment& segment : batch) {
    const int n_tokens = int_size(segment.tokens);
    SPECDEC_CHECK(n_tokens > 0, "a segment of at least one token");
    SPECDEC_CHECK(0 <= segment.logits_rows && segment.logits_rows <= n_tokens,
                  "logits for 0 to {} tokens, not {}", n_tokens, segment.logits_rows);
    wanted += segment.logits_rows;
    if (segment.parents.empty()) {
      check_length(segment.sequence, n_tokens - segment.hidden.again);
    } else {
      check_parents(segment, length(segment.sequence));
      check_depth(segment);
    }
    for (const TokenId id : segment.tokens) {
      if (id < 0 || id >= (input_ ? input_->ids() : vocab_size())) {
        fail("token id {} is outside the vocabulary of {}", id, vocab_size());
      }
    }
  }
  SPECDEC_CHECK(logits.rows == wanted && (wanted == 0 || logits.width == vocab_size()),
                "logits of {} rows, not {}", wanted, logits.rows);
  check_hidden(batch, out);
}

// What is asked of the residual stream.
void Llama::check_hidden(std::span<const Segment> batch, const Outputs& out) const {
  int wanted = 0;
  for (const Segment& segment : batch) {
    const int n_tokens = int_size(segment.tokens);
    SPECDEC_CHECK(0 <= segment.hidden.rows && segment.hidden.rows <= n_tokens,
                  "rows of 0 to {} tokens, not {}", n_tokens, segment.hidden.rows);
    const int known = segment.parents.empty() ? length(segment.sequence) : 0;
    SPECDEC_CHECK(0 <= segment.hidden.again && segment.hidden.again <= std::min(known, n_tokens),
                  "{} of {} tokens to be computed again", segment.hidden.again, n_tokens);
    wanted += segment.hidden.rows;
  }
  SPECDEC_CHECK(out.hidden.rows == wanted &&
                    (wanted == 0 || out.hidden.width == int_size(out.places) * row_width()),
                "{} rows of the residual stream, not {}", wanted, out.hidden.rows);
  SPECDEC_CHECK(
      int_size(out.places) <= kMostPlaces &&
          std::ranges::all_of(
              out.places,
              [&](int place) { return Outputs::kAfterNorm <= place && place <= n_blocks(); }),
      "at most {} places of {} blocks", kMostPlaces, n_blocks());
}

void Llama::check_length(SequenceId sequence, int n_tokens) const {
  if (length(sequence) + n_tokens > max_seq_len()) {
    fail("{} cached and {} new tokens exceed the model's {} positions", length(sequence), n_tokens,
         max_seq_len());
  }
}

// In a tree, a node's position depends on its depth.
void Llama::check_depth(const Segment& segment) const {
  const int n_nodes = int_size(segment.parents);
  const int n_tokens = int_size(segment.tokens);
  const int begin = length(segment.sequence) - (n_nodes - n_tokens);
  for (int node = n_nodes - n_tokens; node < n_nodes; ++node) {
    const int depth = depth_of(node, segment.parents);
    if (begin + depth >= max_seq_len()) {
      fail("{} cached tokens and a tree {} deep exceed the model's {} positions", begin, depth + 1,
           max_seq_len());
    }
  }
}

void Llama::take_back(std::span<const Extension> extensions) {
  for (const auto& [sequence, tokens] : extensions) {
    cache_.truncate(sequence, length(sequence) - tokens);
  }
}

void Llama::extend_cache(std::span<const Segment> batch) {
  extensions_.clear();
  for (const Segment& segment : batch) {
    extensions_.push_back({segment.sequence, int_size(segment.tokens) - segment.hidden.again});
  }
  cache_.extend(extensions_);
}

// The scratch as matrices of `rows` rows.
Llama::Activations Llama::activations(int rows) const {
  const LlamaConfig& c = model_.config();
  const int q_width = c.n_heads * c.head_dim, kv_width = c.n_kv_heads * c.head_dim;
  Activations a;
  a.x = matrix(x_, rows, c.d_model);
  a.normed = matrix(normed_, rows, c.d_model);
  a.qkv = matrix(qkv_, rows, q_width + 2 * kv_width);
  a.q = a.qkv.columns(0, q_width);
  a.attended = matrix(attended_, rows, q_width);
  a.projected = matrix(projected_, rows, c.d_model);
  a.gate_up = matrix(gate_up_, rows, 2 * c.d_ff);
  a.activated = matrix(activated_, rows, c.d_ff);
  a.cosines = matrix(cosines_, rows, c.head_dim / 2);
  a.sines = matrix(sines_, rows, c.head_dim / 2);
  return a;
}

// One pass over the planned rows, and exactly the rows of `out`. ids_on_device: used instead of the
// plan's ids unless it is null.
void Llama::run_pass(const Outputs& out, const std::int32_t* ids_on_device) {
  PlanOnDevice plan = plan_.upload(*ops_);
  if (ids_on_device != nullptr) plan.ids = ids_on_device;
  const int rows = plan_.rows();
  const auto operations = [this, plan, rows, out] { compute(plan, activations(rows), out); };
  if (recorder_ != nullptr && ops_ == &model_.backend() && input_ == nullptr) {
    const auto address = [](const auto* p) { return reinterpret_cast<std::intptr_t>(p); };
    const std::array counts = {rows, out.logits.rows, out.hidden.rows};
    const std::array places = {plan.places.context, plan_.tail_slots()};
    recorder_->run({packed(counts, 21), packed(places, 31), address(plan.ids), address(plan.wanted),
                    address(out.logits.data), address(out.hidden.data),
                    packed(out.places, 15, 1 - Outputs::kAfterNorm), plan.places.runs},
                   operations);
  } else {
    operations();
  }

  ++counters_.passes;
  counters_.rows += rows;
  counters_.weight_bytes +=
      model_.layer_bytes() + (out.logits.rows > 0 ? model_.head().bytes() : 0);
}

// The operations of a pass, the same for all plans of this size.
void Llama::compute(const PlanOnDevice& plan, const Activations& a, const Outputs& out) {
  Backend& ops = *ops_;
  enter(plan, a);
  ops.rope_angles(plan.places.positions, model_.rope_frequencies().data(), a.cosines, a.sines);
  hand_out(0, a, plan.hidden, out);
  for (int i = 0; i < n_blocks(); ++i) {
    block(i, a, plan.places);
    hand_out(i + 1, a, plan.hidden, out);
  }
  if (out.logits.rows > 0) head(a, plan.wanted, out.logits);
}

// Writes the residual stream that enters the first block.
void Llama::enter(const PlanOnDevice& plan, const Activations& a) {
  entered_ = {};
  if (input_ != nullptr) {
    entered_ = input_->enter(*ops_, plan.ids, rows_done_, a.x);
  } else {
    ops_->embed(model_.embedding(), plan.ids, a.x);
  }
}

// Copies the wanted rows of the residual stream, if they are wanted after `blocks` blocks.
void Llama::hand_out(int blocks, const Activations& a, const std::int32_t* wanted,
                     const Outputs& out) {
  if (out.hidden.rows == 0) return;
  for (int i = 0; i < int_size(out.places); ++i) {
    const DeviceRows rows = out.hidden.columns(i * row_width(), row_width());
    if (out.places[i] == blocks) ops_->gather_rows(a.x, wanted, rows);
    if (out.places[i] == Outputs::kAfterNorm && blocks == n_blocks()) final_norm(a, wanted, rows);
  }
}

// [snippet block]
// One transformer block: x += attention(norm(x)); x += mlp(norm(x)).
void Llama::block(int i, const Activations& a, const RowPlaces& places) {
  const LlamaLayer& weights = model_.layer(i);
  const KvLayer cache = cache_.memory().layer(i);
  const float eps = model_.config().rms_norm_eps;
  Backend& ops = *ops_;

  // q, k and v. Keys and values go to the cache before any row attends.
  ops.matmul_rope_store_kv(attention_input(i, a), *weights.qkv, model_.heads(), a.qkv, a.cosines,
                           a.sines, places, cache);
  ops.attention(a.q, cache, places, model_.heads(), a.attended);
  ops.matmul(a.attended, *weights.o_proj, a.projected);

  // x += projected, and then its norm.
  ops.add_rms_norm(a.x, a.projected, weights.mlp_norm.data(), eps, a.normed);
  ops.matmul_silu_mul(a.normed, *weights.gate_up, a.gate_up, a.activated);  // SwiGLU
  ops.matmul_add(a.activated, *weights.down_proj, a.projected, a.x);        // x += down_proj
}
// [end snippet block]

// The norm of x, unless `input_` had something else for the first block.
ConstDeviceRows Llama::attention_input(int i, const Activations& a) {
  if (i == 0 && entered_.data != nullptr) return entered_;
  ops_->rms_norm(a.x, model_.layer(i).attn_norm.data(), model_.config().rms_norm_eps, a.normed);
  return a.normed;
}

// The logits of the wanted rows. logits: [plan_.wanted_rows(), vocab_size]
void Llama::head(const Activations& a, const std::int32_t* wanted, DeviceRows logits) {
  const LlamaConfig& c = model_.config();
  Backend& ops = *ops_;
  const DeviceRows normed = a.normed.slice(0, logits.rows);
  final_norm(a, wanted, normed);
  ops.matmul(normed, model_.head(), logits);
  if (options_.token_limit > 0 && options_.token_limit < c.vocab_size) {
    ops.fill(logits.columns(options_.token_limit, c.vocab_size - options_.token_limit),
             -std::numeric_limits<float>::infinity());
  }
}

// The wanted rows after the last block, normed.
void Llama::final_norm(const Activations& a, const std::int32_t* wanted, DeviceRows normed) {
  const DeviceRows last = a.projected.slice(0, normed.rows);  // scratch that is no longer in use
  ops_->gather_rows(a.x, wanted, last);
  ops_->rms_norm(last, model_.final_norm().data(), model_.config().rms_norm_eps, normed);
}

}  // namespace specdec
