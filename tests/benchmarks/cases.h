#pragma once
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "common/llama.h"
#include "kernels/ops.h"
#include "stages/03_paged_kv_cache/paged_kv_cache.h"
#include "tests/benchmarks/kernel_program.h"

// What benchmarks of a CPU and of a GPU work on.
namespace specdec {

constexpr int kBenchmarkPageSize = 16;
constexpr HeadShape kHeads1b{32, 8, 64}, kHeads3b{24, 8, 128};  // of Llama 3.2

// The last rows of one sequence, whose pages lie in no order, and keys and values of some layers.
class AttentionInputs {
 public:
  // context: a power of two.
  AttentionInputs(Backend& backend, const HeadShape& heads, int context, int most_rows, int layers)
      : heads_(heads),
        context_(context),
        most_rows_(most_rows),
        layers_(layers),
        cache_(random_floats(backend, static_cast<std::size_t>(2 * layers) * floats())),
        q_(random_floats(backend, static_cast<std::size_t>(most_rows * width()))),
        out_(backend, q_.size()) {
    std::vector<std::int32_t> positions(static_cast<std::size_t>(most_rows)), pages;
    std::iota(positions.begin(), positions.end(), context - most_rows);
    const int count = context / kBenchmarkPageSize;
    for (int page = 0; page < count; ++page) pages.push_back(page * 5 % count);
    positions_ = on_device(backend, positions);
    table_starts_ = on_device(backend, std::vector<std::int32_t>(positions.size()));
    pages_ = on_device(backend, pages);
  }

  int layers() const { return layers_; }
  const HeadShape& heads() const { return heads_; }
  ConstDeviceRows q(int rows) const { return matrix(q_, rows, width()); }
  DeviceRows out(int rows) const { return matrix(out_, rows, width()); }
  KvLayer layer(int i) const {
    float* keys = cache_.data() + static_cast<std::size_t>(2 * i) * floats();
    return {keys, keys + floats()};
  }
  RowPlaces places(int rows) const {
    return {.positions = positions_.data() + most_rows_ - rows,
            .table_starts = table_starts_.data(),
            .page_tables = pages_.data(),
            .page_size = kBenchmarkPageSize,
            .context = context_};
  }
  Work work(int rows) const {  // in one layer
    return {static_cast<double>(2 * floats() * sizeof(float)), 4.0 * rows * width() * context_};
  }

 private:
  int width() const { return heads_.n_heads * heads_.head_dim; }
  std::size_t floats() const {  // of a layer's keys, or of its values
    return static_cast<std::size_t>(context_) *
           static_cast<std::size_t>(heads_.n_kv_heads * heads_.head_dim);
  }

  HeadShape heads_;
  int context_, most_rows_, layers_;
  DeviceArray<float> cache_, q_, out_;
  DeviceArray<std::int32_t> positions_, table_starts_, pages_;
};

// A model with one sequence, and passes after any context of it.
class PassModel {
 public:
  static constexpr int kMostLogits = 16;  // a pass over more rows is a prefill

  PassModel(const WeightSource& weights, Backend& backend, int most_context, int most_rows)
      : model_(weights, backend),
        options_{.max_pass_rows = most_rows},
        tokens_(static_cast<std::size_t>(most_context + most_rows), 7),
        cache_(backend, model_.kv_shape(), (most_context + most_rows) / kBenchmarkPageSize + 1,
               kBenchmarkPageSize),
        llama_(model_, cache_, options_),
        logits_(llama_, kMostLogits),
        sequence_(llama_.create()) {}

  Llama& llama() { return llama_; }
  // One more that computes with the same model and in the same cache.
  std::unique_ptr<Llama> another() { return std::make_unique<Llama>(model_, cache_, options_); }
  double matrix_bytes() const {
    return static_cast<double>(model_.layer_bytes() + model_.head().bytes());
  }

  // Leaves `context` tokens in the cache.
  void go_to(int context) {
    const int cached = cache_.length(sequence_);
    if (context < cached) cache_.truncate(sequence_, context);
    if (context > cached) llama_.forward(Segment{sequence_, tokens(context - cached), 0}, {});
  }

  // M new tokens, with logits for each, or without any where they are a prefill.
  void pass(Llama& llama, int rows, const std::function<void(DeviceRows)>& use_logits = {}) {
    const int context = cache_.length(sequence_);
    const DeviceRows logits = logits_.rows(0, rows > kMostLogits ? 0 : rows);
    llama.forward(Segment{sequence_, tokens(rows), logits.rows}, logits);
    if (use_logits) use_logits(logits);
    cache_.truncate(sequence_, context);
  }

  Work work(int rows) const {  // two bytes and two operations a weight
    const double weights =
        rows > kMostLogits ? static_cast<double>(model_.layer_bytes()) : matrix_bytes();
    const auto cached =
        static_cast<double>(model_.kv_shape().bytes_per_token()) * cache_.length(sequence_);
    return {weights + cached, weights * rows};
  }

 private:
  std::span<const TokenId> tokens(int count) const {
    return std::span(tokens_).first(static_cast<std::size_t>(count));
  }

  LlamaModel model_;
  LlamaOptions options_;
  std::vector<TokenId> tokens_;
  PagedKvCache cache_;
  Llama llama_;
  LogitsBuffer logits_;
  SequenceId sequence_;
};

}  // namespace specdec
