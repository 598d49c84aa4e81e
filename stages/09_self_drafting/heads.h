#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "kernels/ops.h"
#include "stages/09_self_drafting/draft_head.h"

namespace specdec {

// Networks that make several rows of one row of the target: head h makes the row with which the
// target would say its token h + 1 places later. Rows are those after the target's final norm, and
// so are the rows that heads make: the target's own projection turns both into logits.
class Heads {
 public:
  virtual ~Heads() = default;

  virtual int count() const = 0;
  virtual int width() const = 0;          // d_model
  virtual std::size_t bytes() const = 0;  // of matrices, read once for all rows
  // out: row h * B + b is what head h makes of row b. rows: [B, width()], out: [count() * B,
  // width()]. REQUIRES: B is at most the max_rows that the heads were made for.
  virtual void compute(ConstDeviceRows rows, DeviceRows out) = 0;
};

// Heads, and what turns their rows into logits: the same for all heads, or one for each.
struct LoadedHeads {
  std::unique_ptr<Heads> heads;
  std::vector<DraftHead> says;
};

// What the published files of heads hold, as a folder with config.json and model.safetensors.
// target: that the heads were made for; runs: the one that runs, which is larger if it is inflated
// (common/inflation), and then the heads are, too. max_rows: of compute(). Throws Error: for what
// cannot be read, and for heads of another target.
LoadedHeads load_heads(const std::filesystem::path& folder, const WeightSource& target,
                       const LlamaConfig& runs, Backend& backend, int max_rows);

// Matrices and scratch that the kinds of heads share.
class HeadParts {
 public:
  HeadParts(Backend& backend, int width, int scratch_width, int max_rows);

  // out[h * B + b] = rows[b] + made[b] at columns h * width. made: [B, count * width].
  void add_rows(ConstDeviceRows rows, ConstDeviceRows made, DeviceRows out);
  // out = silu(x).
  void silu(ConstDeviceRows x, DeviceRows out);
  // x += bias in every row. bias: [1, x.width].
  void add_bias(DeviceRows x, ConstDeviceRows bias);

 private:
  Backend& ops_;
  DeviceArray<float> ones_, biases_;        // [max_rows, scratch_width]
  DeviceArray<std::int32_t> each_, first_;  // [max_rows] 0, 1, 2, ... and 0, 0, 0, ...
};

// One network of two layers for all heads (Stern et al. 2018, section 4): x + W2 silu(W1 x).
class BlockwiseHeads final : public Heads {
 public:
  // up: [f, d_model]; down: [count * d_model, f].
  BlockwiseHeads(Backend& backend, std::unique_ptr<const WeightMatrix> up,
                 std::unique_ptr<const WeightMatrix> down, int max_rows);

  int count() const override { return down_->rows() / width(); }
  int width() const override { return up_->width(); }
  std::size_t bytes() const override { return up_->bytes() + down_->bytes(); }
  void compute(ConstDeviceRows rows, DeviceRows out) override;

 private:
  Backend& ops_;
  std::unique_ptr<const WeightMatrix> up_, down_;
  HeadParts parts_;
  DeviceArray<float> hidden_, activated_;  // [max_rows, f]
  DeviceArray<float> made_;                // [max_rows, count * d_model]
};

// A residual block for each head (Cai et al. 2024, equation 1): x + silu(W x + b).
class MedusaHeads final : public Heads {
 public:
  // weight: the blocks' matrices one below the other, [count * d_model, d_model]; bias: [count *
  // d_model].
  MedusaHeads(Backend& backend, std::unique_ptr<const WeightMatrix> weight,
              const std::vector<float>& bias, int max_rows);

  int count() const override { return weight_->rows() / width(); }
  int width() const override { return weight_->width(); }
  std::size_t bytes() const override { return weight_->bytes(); }
  void compute(ConstDeviceRows rows, DeviceRows out) override;

 private:
  Backend& ops_;
  std::unique_ptr<const WeightMatrix> weight_;
  DeviceArray<float> bias_;
  HeadParts parts_;
  DeviceArray<float> made_, activated_;  // [max_rows, count * d_model]
};

// Medusa heads of several blocks each: a further block reads what the head's blocks before it made.
class DeeperHeads final : public Heads {
 public:
  using Blocks = std::vector<std::unique_ptr<Heads>>;

  // first: of all heads. further: each one block, which is of one head; those of head 0, 1, ...,
  // then the next ones of head 0, 1, ...
  DeeperHeads(Backend& backend, std::unique_ptr<Heads> first, Blocks further, int max_rows);

  int count() const override { return first_->count(); }
  int width() const override { return first_->width(); }
  std::size_t bytes() const override;
  void compute(ConstDeviceRows rows, DeviceRows out) override;

 private:
  Backend& ops_;
  std::unique_ptr<Heads> first_;
  Blocks further_;
  DeviceArray<float> made_;  // [max_rows, d_model]
};

}  // namespace specdec
