#include "common/llama.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/error.h"

namespace specdec {
namespace {

constexpr std::int32_t kNoTail = std::numeric_limits<std::int32_t>::max();  // a RowPlaces' first

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
  // Tables of all pages together; only batches that share pages can need more.
  const auto n_pages = static_cast<std::size_t>(cache.memory().slots() / cache.page_size());
  plan_.page_tables.reserve(n_pages);
  lists_.reserve(product(5, T) + n_pages);
  lists_on_device_ = DeviceArray<std::int32_t>(model.backend(), product(5, T) + n_pages);
  for (auto* list :
       {&plan_.ids, &plan_.positions, &plan_.slots, &plan_.table_starts, &plan_.wanted}) {
    list->reserve(static_cast<std::size_t>(T));
  }
  extensions_.reserve(static_cast<std::size_t>(T));
  largest_context_ = std::min(c.max_seq_len, cache.memory().slots());
  model.backend().reserve_attention(T, heads, largest_context_);
  recorder_ = model.backend().make_recorder();
}

// [snippet forward]
void Llama::forward(std::span<const Segment> batch, DeviceRows logits) {
  check(batch, logits);
  extend_cache(batch);  // or throws, and nothing has changed
  try {
    const Burst burst(backend());
    run_passes(batch, logits);
  } catch (...) {  // a device that failed, no memory
    take_back(extensions_);
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
    for (const SequenceId sequence : sequences) {
      plan_.wanted.push_back(static_cast<std::int32_t>(plan_.ids.size()));
      const int position = length(sequence) - 1;
      plan_row(0, position, cache_.slot(sequence, position), plan_table(sequence));
    }
    run_pass(logits, ids);
  } catch (...) {
    take_back(extensions_);
    throw;
  }
  counters_.forwards++;
}

void Llama::check(std::span<const Segment> batch, DeviceRows logits) const {
  int wanted = 0;
  for (const Segment& segment : batch) {
    const int n_tokens = static_cast<int>(segment.tokens.size());
    SPECDEC_CHECK(n_tokens > 0, "a segment of at least one token");
    SPECDEC_CHECK(0 <= segment.logits_rows && segment.logits_rows <= n_tokens,
                  "logits for 0 to {} tokens, not {}", n_tokens, segment.logits_rows);
    wanted += segment.logits_rows;
    if (segment.parents.empty()) {
      check_length(segment.sequence, n_tokens);
    } else {
      check_parents(segment, length(segment.sequence));
      check_depth(segment);
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

void Llama::check_length(SequenceId sequence, int n_tokens) const {
  if (length(sequence) + n_tokens > max_seq_len()) {
    fail("{} cached and {} new tokens exceed the model's {} positions", length(sequence), n_tokens,
         max_seq_len());
  }
}

// Of a tree only the depth counts as positions.
void Llama::check_depth(const Segment& segment) const {
  const int n_nodes = static_cast<int>(segment.parents.size());
  const int n_tokens = static_cast<int>(segment.tokens.size());
  const int begin = length(segment.sequence) - (n_nodes - n_tokens);
  for (int node = n_nodes - n_tokens; node < n_nodes; node++) {
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
    extensions_.push_back({segment.sequence, static_cast<int>(segment.tokens.size())});
  }
  cache_.extend(extensions_);
}

void Llama::PassPlan::clear() {
  for (auto* list : {&ids, &positions, &slots, &table_starts, &wanted, &page_tables, &tail_firsts,
                     &tail_starts, &tail_slots}) {
    list->clear();
  }
}

// Plans tokens first .. end - 1 of a segment, for which the cache has room already.
void Llama::plan_segment(const Segment& segment, int first, int end) {
  const int n_tokens = static_cast<int>(segment.tokens.size());
  const int n_nodes = static_cast<int>(segment.parents.size());
  const int start = cache_.length(segment.sequence) - n_tokens;
  const std::int32_t table_start = plan_table(segment.sequence);
  for (int i = first; i < end; i++) {
    if (i >= n_tokens - segment.logits_rows) {
      plan_.wanted.push_back(static_cast<std::int32_t>(plan_.ids.size()));
    }
    int position = start + i;
    if (n_nodes > 0) {
      const int begin = start - (n_nodes - n_tokens);
      position = begin + plan_tail(segment, begin, n_nodes - n_tokens + i);
    }
    plan_row(segment.tokens[static_cast<std::size_t>(i)], position,
             cache_.slot(segment.sequence, start + i), table_start);
  }
}

// [snippet plan-tail]
// Plans the tail of the next row, a node of a tree whose nodes lie from place `begin` on. Returns
// the node's depth.
int Llama::plan_tail(const Segment& segment, int begin, int node) {
  // [task 8.2: plan a node's tail]
  const int depth = depth_of(node, segment.parents);
  // Rows before this one may have none.
  plan_.tail_firsts.resize(plan_.ids.size(), kNoTail);
  plan_.tail_starts.resize(plan_.ids.size());
  plan_.tail_firsts.push_back(begin);
  plan_.tail_starts.push_back(static_cast<std::int32_t>(plan_.tail_slots.size()));
  plan_.tail_slots.resize(plan_.tail_slots.size() + static_cast<std::size_t>(depth) + 1);
  for (auto slot = plan_.tail_slots.rbegin(); node >= 0; ++slot) {
    *slot = cache_.slot(segment.sequence, begin + node);
    node = segment.parents[static_cast<std::size_t>(node)];
  }
  return depth;
  // [end task 8.2]
}
// [end snippet plan-tail]

// Plans the sequence's page table: where it starts.
std::int32_t Llama::plan_table(SequenceId sequence) {
  const auto table = cache_.pages(sequence);
  const auto start = static_cast<std::int32_t>(plan_.page_tables.size());
  plan_.page_tables.insert(plan_.page_tables.end(), table.begin(), table.end());
  return start;
}

void Llama::plan_row(TokenId token, int position, std::int32_t slot, std::int32_t table_start) {
  plan_.ids.push_back(token);
  plan_.positions.push_back(position);
  plan_.slots.push_back(slot);
  plan_.table_starts.push_back(table_start);
}

// A power of two from 128 on, so that passes of about the same context are the same operations; no
// more than there is memory for.
int Llama::context_bucket(int context) const {
  const int rounded =
      static_cast<int>(std::bit_ceil(std::max(128u, static_cast<unsigned>(context))));
  return std::max(context, std::min(rounded, largest_context_));
}

// Copies the plan to the device: one copy, as each is a call that a GPU waits for.
Llama::PlanOnDevice Llama::upload_plan() {
  const bool has_tails = !plan_.tail_slots.empty();
  if (has_tails) {
    plan_.tail_firsts.resize(plan_.ids.size(), kNoTail);  // rows behind the last tail have none
    plan_.tail_starts.resize(plan_.ids.size());
  }
  // [snippet upload-plan]
  lists_.clear();
  for (const auto* list :
       {&plan_.ids, &plan_.wanted, &plan_.positions, &plan_.slots, &plan_.table_starts,
        &plan_.tail_firsts, &plan_.tail_starts, &plan_.tail_slots, &plan_.page_tables}) {
    lists_.insert(lists_.end(), list->begin(), list->end());
  }
  if (lists_on_device_.size() < lists_.size()) {
    lists_on_device_ = DeviceArray<std::int32_t>(backend(), 2 * lists_.size());
  }
  // Of a few sizes, so that a copy, too, is the same in many passes.
  lists_.resize(std::min(std::bit_ceil(lists_.size()), lists_on_device_.size()));
  ops_->upload(lists_.data(), lists_on_device_.data(), lists_.size() * sizeof(std::int32_t));

  const std::int32_t* next = lists_on_device_.data();
  const auto take = [&](const std::vector<std::int32_t>& list) {
    return std::exchange(next, next + list.size());
  };
  PlanOnDevice plan;
  plan.ids = take(plan_.ids);
  plan.wanted = take(plan_.wanted);
  plan.places.positions = take(plan_.positions);
  plan.places.slots = take(plan_.slots);
  plan.places.table_starts = take(plan_.table_starts);
  if (has_tails) {
    plan.places.tail_firsts = take(plan_.tail_firsts);
    plan.places.tail_starts = take(plan_.tail_starts);
    plan.places.tail_slots = take(plan_.tail_slots);
  }
  plan.places.page_tables = take(plan_.page_tables);
  plan.places.page_size = cache_.page_size();
  plan.places.context = context_bucket(1 + *std::ranges::max_element(plan_.positions));
  // [end snippet upload-plan]
  return plan;
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
  a.activated = matrix(activated_, rows, c.d_ff);
  a.cosines = matrix(cosines_, rows, c.head_dim / 2);
  a.sines = matrix(sines_, rows, c.head_dim / 2);
  return a;
}

// One pass over the planned rows. logits: [plan_.wanted, vocab_size]. ids_on_device: in place of
// the plan's.
void Llama::run_pass(DeviceRows logits, const std::int32_t* ids_on_device) {
  PlanOnDevice plan = upload_plan();
  if (ids_on_device != nullptr) plan.ids = ids_on_device;
  const int rows = static_cast<int>(plan_.ids.size());
  const auto operations = [this, plan, rows, logits] { compute(plan, activations(rows), logits); };
  if (recorder_ != nullptr && ops_ == &model_.backend()) {
    const auto address = [](const auto* p) { return reinterpret_cast<std::intptr_t>(p); };
    recorder_->run({rows, logits.rows, plan.places.context, std::ssize(plan_.tail_slots),
                    address(plan.ids), address(plan.wanted), address(logits.data)},
                   operations);
  } else {
    operations();
  }

  counters_.passes++;
  counters_.rows += rows;
  counters_.weight_bytes += static_cast<std::int64_t>(
      model_.layer_bytes() + (logits.rows > 0 ? model_.head().bytes() : 0));
}

// The operations of a pass, the same for all plans of this size.
void Llama::compute(const PlanOnDevice& plan, const Activations& a, DeviceRows logits) {
  Backend& ops = *ops_;
  ops.embed(model_.embedding(), plan.ids, a.x);
  ops.rope_angles(plan.places.positions, model_.rope_frequencies().data(), a.cosines, a.sines);
  for (int i = 0; i < model_.config().n_layers; i++) block(i, a, plan.places);
  if (logits.rows > 0) head(a, plan.wanted, logits);
}

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
  ops.matmul_silu_mul(a.normed, *weights.gate_up, a.gate_up, a.activated);  // SwiGLU
  ops.matmul_add(a.activated, *weights.down_proj, a.projected, a.x);        // x += down_proj
}
// [end snippet block]

// The logits of the wanted rows. logits: [plan_.wanted, vocab_size]
void Llama::head(const Activations& a, const std::int32_t* wanted, DeviceRows logits) {
  const LlamaConfig& c = model_.config();
  Backend& ops = *ops_;
  const DeviceRows last = a.projected.slice(0, logits.rows);  // scratch that is free by now
  const DeviceRows normed = a.normed.slice(0, logits.rows);
  ops.gather_rows(a.x, wanted, last);
  ops.rms_norm(last, model_.final_norm().data(), static_cast<float>(c.rms_norm_eps), normed);
  ops.matmul(normed, model_.head(), logits);
  if (options_.token_limit > 0 && options_.token_limit < c.vocab_size) {
    ops.fill(logits.columns(options_.token_limit, c.vocab_size - options_.token_limit),
             -std::numeric_limits<float>::infinity());
  }
}

}  // namespace specdec
