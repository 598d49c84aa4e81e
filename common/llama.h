#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/language_model.h"
#include "common/llama_model.h"
#include "common/pass_plan.h"

namespace specdec {

struct LlamaOptions {
  int token_limit = 0;  // ids from here on are not tokens, so their logits are masked; 0: none are
  int max_pass_rows = 256;  // a longer batch takes several passes; sets the size of the scratch
};

// Exact counts, the same on every machine.
struct LlamaCounters {
  std::int64_t forwards = 0;      // calls that succeeded
  std::int64_t passes = 0;        // each reads the weights of all layers
  std::int64_t rows = 0;          // tokens computed
  std::int64_t weight_bytes = 0;  // of matrices, read by the passes

  LlamaCounters operator-(const LlamaCounters& earlier) const {
    return {forwards - earlier.forwards, passes - earlier.passes, rows - earlier.rows,
            weight_bytes - earlier.weight_bytes};
  }
};

// What enters the first block in place of the tokens' embeddings (used from stage 9 on).
class LlamaInput {
 public:
  virtual ~LlamaInput() = default;

  // Ids that tokens of a segment may have: 0 to ids() - 1.
  virtual int ids() const = 0;
  // Writes the residual stream of the rows of a pass, x [rows, d_model]. ids: [rows], on the
  // device. first: how many rows of the same forward() earlier passes had. Returns what the first
  // block's attention reads, [rows, width of its matrix], or no data: then it reads the norm of x,
  // as usual.
  virtual ConstDeviceRows enter(Backend& ops, const std::int32_t* ids, int first, DeviceRows x) = 0;
};

// A Llama on a backend with a cache: the engine of all stages from 2 on.
class Llama final : public LanguageModel {
 public:
  // REQUIRES: the cache has the model's KvShape, of either type, and its backend; both outlive this
  // object.
  Llama(const LlamaModel& model, KvCache& cache, const LlamaOptions& options = {});

  using LanguageModel::forward;
  void forward(std::span<const Segment> batch, const Outputs& out) override;

  void forward_chosen(std::span<const SequenceId> sequences, const std::int32_t* ids,
                      DeviceRows logits) override;
  bool feeds_from_device() const override { return backend().samples(); }

  SequenceId create() override { return cache_.create(); }
  SequenceId fork(SequenceId sequence) override { return cache_.fork(sequence); }
  void release(SequenceId sequence) override { cache_.release(sequence); }
  int length(SequenceId sequence) const override { return cache_.length(sequence); }
  void truncate(SequenceId sequence, int length) override { cache_.truncate(sequence, length); }
  void keep(SequenceId sequence, int start, std::span<const int> kept) override {
    cache_.keep(sequence, start, kept);
  }
  bool can_extend(std::span<const Extension> extensions) const override {
    return cache_.can_extend(extensions);
  }
  int vocab_size() const override { return model_.config().vocab_size; }
  int max_seq_len() const override { return model_.config().max_seq_len; }
  int row_width() const override { return model_.config().d_model; }
  int n_blocks() const override { return model_.config().n_layers; }
  Backend& backend() const override { return model_.backend(); }

  const LlamaCounters& counters() const { return counters_; }
  const LlamaModel& model() const { return model_; }
  // From now on computes with `ops`, which works in the memory of the model's own backend: for
  // instance one that observes tensors. REQUIRES: it lives until the next call of this function.
  void compute_through(Backend& ops) { ops_ = &ops; }
  // From now on `input` makes what enters the first block; null: embeddings do. REQUIRES: as above.
  void enter_through(LlamaInput* input) { input_ = input; }

 private:
  // What a pass computes.
  struct Activations {
    DeviceRows x;                  // [T, d_model], the residual stream
    DeviceRows normed, projected;  // [T, d_model]
    DeviceRows qkv, q;             // [T, (H + 2 Hkv) * D], and its first H * D columns
    DeviceRows attended;           // [T, H * D]
    DeviceRows gate_up;            // [T, 2 * d_ff]
    DeviceRows activated;          // [T, d_ff]
    DeviceRows cosines, sines;     // [T, D / 2]
  };

  void check(std::span<const Segment> batch, const Outputs& out) const;
  void check_hidden(std::span<const Segment> batch, const Outputs& out) const;
  void check_length(SequenceId sequence, int n_tokens) const;
  void check_depth(const Segment& segment) const;
  void extend_cache(std::span<const Segment> batch);
  void take_back(std::span<const Extension> extensions);
  void run_passes(std::span<const Segment> batch, const Outputs& out);
  int largest_context() const;
  Activations activations(int rows) const;
  void run_pass(const Outputs& out, const std::int32_t* ids_on_device = nullptr);
  void compute(const PlanOnDevice& plan, const Activations& a, const Outputs& out);
  void enter(const PlanOnDevice& plan, const Activations& a);
  ConstDeviceRows attention_input(int i, const Activations& a);
  void block(int i, const Activations& a, const RowPlaces& places);
  void head(const Activations& a, const std::int32_t* wanted, DeviceRows logits);
  void hand_out(int blocks, const Activations& a, const std::int32_t* wanted, const Outputs& out);
  void final_norm(const Activations& a, const std::int32_t* wanted, DeviceRows normed);

  const LlamaModel& model_;
  KvCache& cache_;
  LlamaOptions options_;
  LlamaCounters counters_;
  Backend* ops_;                        // see compute_through()
  std::unique_ptr<Recorder> recorder_;  // null: the backend has none
  LlamaInput* input_ = nullptr;         // see enter_through()
  ConstDeviceRows entered_;             // what it returned for this pass
  int rows_done_ = 0;                   // of one forward, by earlier passes

  PassPlan plan_;
  std::vector<Extension> extensions_;

  // Scratch for a pass of up to max_pass_rows rows.
  DeviceArray<float> x_, normed_, qkv_, attended_, projected_, gate_up_, activated_;
  DeviceArray<float> cosines_, sines_;
};

}  // namespace specdec
