#include "common/llama.h"

#include <algorithm>
#include <limits>

#include "common/base/check.h"
#include "common/base/error.h"

namespace specdec {
namespace {

std::size_t product(int a, int b) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b);
}

// Keeps the backend's threads awake for the length of a call.
class Burst {
 public:
  explicit Burst(Backend& backend) : backend_(backend) { backend_.begin_burst(); }
  ~Burst() { backend_.end_burst(); }
  Burst(const Burst&) = delete;
  Burst& operator=(const Burst&) = delete;

 private:
  Backend& backend_;
};

}  // namespace

Llama::Llama(const LlamaModel& model, KvCache& cache, const LlamaOptions& options)
    : model_(model), cache_(cache), options_(options), ops_(&model.backend()) {
  const LlamaConfig& c = model.config();
  const int T = options.max_pass_rows;
  const HeadShape heads = model.heads();
  SPECDEC_CHECK(T > 0, "passes of at least one row");
  const auto rows_of = [&](int width) {
    return DeviceArray<float>(model.backend(), product(T, width));
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
  rows_ = DeviceArray<std::int32_t>(model.backend(), product(5, T));
  // Tables of all pages together; only batches that share pages can need more.
  const auto n_pages = static_cast<std::size_t>(cache.memory().slots() / cache.page_size());
  plan_.page_tables.reserve(n_pages);
  page_tables_ = DeviceArray<std::int32_t>(model.backend(), n_pages);
  for (auto* list :
       {&plan_.ids, &plan_.positions, &plan_.slots, &plan_.table_starts, &plan_.wanted}) {
    list->reserve(static_cast<std::size_t>(T));
  }
  extensions_.reserve(static_cast<std::size_t>(T));
  model.backend().reserve_attention(T, heads, std::min(c.max_seq_len, cache.memory().slots()));
}

// [snippet forward]
void Llama::forward(std::span<const Segment> batch, DeviceRows logits) {
  check(batch, logits);
  extend_cache(batch);  // or throws, and nothing has changed
  try {
    const Burst burst(backend());
    run_passes(batch, logits);
  } catch (...) {  // a device that failed, no memory
    for (const Segment& segment : batch) {
      const auto n_tokens = static_cast<int>(segment.tokens.size());
      cache_.truncate(segment.sequence, length(segment.sequence) - n_tokens);
    }
    throw;
  }
  counters_.forwards++;
}

// Plans the batch's tokens as rows, and computes a pass whenever it is full.
void Llama::run_passes(std::span<const Segment> batch, DeviceRows logits) {
  int logits_done = 0;
  const auto flush = [&] {
    const int wanted = static_cast<int>(plan_.wanted.size());
    run_pass(logits.slice(logits_done, wanted));
    logits_done += wanted;
    plan_.clear();
  };
  plan_.clear();
  for (const Segment& segment : batch) {
    const int n_tokens = static_cast<int>(segment.tokens.size());
    for (int first = 0; first < n_tokens;) {
      const int room = options_.max_pass_rows - static_cast<int>(plan_.ids.size());
      const int end = std::min(n_tokens, first + room);
      plan_segment(segment, first, end);
      first = end;
      if (static_cast<int>(plan_.ids.size()) == options_.max_pass_rows) flush();
    }
  }
  if (!plan_.ids.empty()) flush();
}
// [end snippet forward]

void Llama::check(std::span<const Segment> batch, DeviceRows logits) const {
  int wanted = 0;
  for (const Segment& segment : batch) {
    const int n_tokens = static_cast<int>(segment.tokens.size());
    SPECDEC_CHECK(n_tokens > 0, "a segment of at least one token");
    SPECDEC_CHECK(0 <= segment.logits_rows && segment.logits_rows <= n_tokens,
                  "logits for 0 to {} tokens, not {}", n_tokens, segment.logits_rows);
    wanted += segment.logits_rows;
    if (length(segment.sequence) + n_tokens > max_seq_len()) {
      fail("{} cached and {} new tokens exceed the model's {} positions", length(segment.sequence),
           n_tokens, max_seq_len());
    }
    for (const TokenId id : segment.tokens) {
      if (id < 0 || id >= vocab_size()) {
        fail("token id {} is outside the vocabulary of {}", id, vocab_size());
      }
    }
  }
  SPECDEC_CHECK(logits.rows == wanted && (wanted == 0 || logits.width == vocab_size()),
                "logits of {} rows, not {}", wanted, logits.rows);
}

void Llama::extend_cache(std::span<const Segment> batch) {
  extensions_.clear();
  for (const Segment& segment : batch) {
    extensions_.push_back({segment.sequence, static_cast<int>(segment.tokens.size())});
  }
  cache_.extend(extensions_);
}

void Llama::PassPlan::clear() {
  for (auto* list : {&ids, &positions, &slots, &table_starts, &wanted, &page_tables}) {
    list->clear();
  }
}

// Plans tokens first .. end - 1 of a segment, for which the cache has room already.
void Llama::plan_segment(const Segment& segment, int first, int end) {
  const int n_tokens = static_cast<int>(segment.tokens.size());
  const int start = cache_.length(segment.sequence) - n_tokens;
  const auto table = cache_.pages(segment.sequence);
  const auto table_start = static_cast<std::int32_t>(plan_.page_tables.size());
  plan_.page_tables.insert(plan_.page_tables.end(), table.begin(), table.end());
  for (int i = first; i < end; i++) {
    if (i >= n_tokens - segment.logits_rows) {
      plan_.wanted.push_back(static_cast<std::int32_t>(plan_.ids.size()));
    }
    plan_.ids.push_back(segment.tokens[static_cast<std::size_t>(i)]);
    plan_.positions.push_back(start + i);
    plan_.slots.push_back(cache_.slot(segment.sequence, start + i));
    plan_.table_starts.push_back(table_start);
  }
}

// Copies the plan to the device, each list to its row of rows_.
RowPlaces Llama::upload_plan() {
  Backend& ops = *ops_;
  const auto upload = [&](const std::vector<std::int32_t>& list, std::int32_t* to) {
    ops.upload(list.data(), to, list.size() * sizeof(std::int32_t));
    return to;
  };
  const auto row = [&](int i) { return rows_.data() + product(i, options_.max_pass_rows); };
  if (page_tables_.size() < plan_.page_tables.size()) {
    page_tables_ = DeviceArray<std::int32_t>(ops, 2 * plan_.page_tables.size());
  }
  // [snippet upload-plan]
  upload(plan_.ids, row(0));     // ids()
  upload(plan_.wanted, row(1));  // wanted()
  RowPlaces places;
  places.positions = upload(plan_.positions, row(2));
  places.slots = upload(plan_.slots, row(3));
  places.table_starts = upload(plan_.table_starts, row(4));
  places.page_tables = upload(plan_.page_tables, page_tables_.data());
  places.page_size = cache_.page_size();
  places.context = 1 + *std::ranges::max_element(plan_.positions);
  // [end snippet upload-plan]
  return places;
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
  a.k = a.qkv.columns(q_width, kv_width);
  a.v = a.qkv.columns(q_width + kv_width, kv_width);
  a.attended = matrix(attended_, rows, q_width);
  a.projected = matrix(projected_, rows, c.d_model);
  a.gate_up = matrix(gate_up_, rows, 2 * c.d_ff);
  a.gate = a.gate_up.columns(0, c.d_ff);
  a.up = a.gate_up.columns(c.d_ff, c.d_ff);
  a.activated = matrix(activated_, rows, c.d_ff);
  a.cosines = matrix(cosines_, rows, c.head_dim / 2);
  a.sines = matrix(sines_, rows, c.head_dim / 2);
  return a;
}

// [snippet pass]
// One pass over the planned rows. logits: [plan_.wanted, vocab_size]
void Llama::run_pass(DeviceRows logits) {
  Backend& ops = *ops_;
  const RowPlaces places = upload_plan();
  const Activations a = activations(static_cast<int>(plan_.ids.size()));

  ops.embed(model_.embedding(), ids(), a.x);
  ops.rope_angles(places.positions, model_.rope_frequencies().data(), a.cosines, a.sines);
  for (int i = 0; i < model_.config().n_layers; i++) block(i, a, places);
  if (logits.rows > 0) head(a, logits);

  counters_.passes++;
  counters_.rows += a.x.rows;
  counters_.weight_bytes += static_cast<std::int64_t>(
      model_.layer_bytes() + (logits.rows > 0 ? model_.head().bytes() : 0));
}
// [end snippet pass]

// [snippet block]
// One transformer block: x += attention(norm(x)); x += mlp(norm(x)).
void Llama::block(int i, const Activations& a, const RowPlaces& places) {
  const LlamaLayer& weights = model_.layer(i);
  const KvLayer cache = cache_.memory().layer(i);
  const auto eps = static_cast<float>(model_.config().rms_norm_eps);
  Backend& ops = *ops_;

  ops.rms_norm(a.x, weights.attn_norm.data(), eps, a.normed);
  ops.matmul(a.normed, *weights.qkv, a.qkv);  // q, k and v are columns of qkv
  ops.rope_store_kv(a.q, a.k, a.v, a.cosines, a.sines, places, cache);  // before any row looks back
  ops.attention(a.q, cache, places, model_.heads(), a.attended);
  ops.matmul(a.attended, *weights.o_proj, a.projected);

  // x += projected, and the norm of that.
  ops.add_rms_norm(a.x, a.projected, weights.mlp_norm.data(), eps, a.normed);
  ops.matmul(a.normed, *weights.gate_up, a.gate_up);
  ops.silu_mul(a.gate, a.up, a.activated);
  ops.matmul(a.activated, *weights.down_proj, a.projected);
  ops.add(a.x, a.projected);
}
// [end snippet block]

// The logits of the wanted rows. logits: [plan_.wanted, vocab_size]
void Llama::head(const Activations& a, DeviceRows logits) {
  const LlamaConfig& c = model_.config();
  Backend& ops = *ops_;
  const DeviceRows last = a.projected.slice(0, logits.rows);  // scratch that is free by now
  const DeviceRows normed = a.normed.slice(0, logits.rows);
  ops.gather_rows(a.x, wanted(), last);
  ops.rms_norm(last, model_.final_norm().data(), static_cast<float>(c.rms_norm_eps), normed);
  ops.matmul(normed, model_.head(), logits);
  if (options_.token_limit > 0 && options_.token_limit < c.vocab_size) {
    ops.fill(logits.columns(options_.token_limit, c.vocab_size - options_.token_limit),
             -std::numeric_limits<float>::infinity());
  }
}

}  // namespace specdec
