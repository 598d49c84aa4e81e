#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/checkpoint/weight_source.h"
#include "common/llama_model.h"
#include "stages/09_self_drafting/head_file.h"

namespace specdec {

// Rows of scratch that grow when a pass needs more.
class GrowingRows {
 public:
  explicit GrowingRows(Backend& backend) : backend_(backend) {}
  DeviceRows rows(int rows, int width) {
    const std::size_t size = std::size_t(rows) * width;
    if (array_.size() < size) array_ = DeviceArray<float>(backend_, size);
    return matrix(array_, rows, width);
  }

 private:
  Backend& backend_;
  DeviceArray<float> array_;
};

// What turns a drafter's rows into logits: a row for each token that it can say.
struct DraftHead {
  std::unique_ptr<const WeightMatrix> matrix;  // null: the target's
  std::vector<std::int32_t> tokens;            // of its rows; empty: 0, 1, 2, ...

  const WeightMatrix& of(const LlamaModel& target) const {
    return matrix ? *matrix : target.head();
  }
};

// The head in the tensor `name` of the file, or without it the target's. It has all tokens, or
// those that the tensors d2t and t2d list, as many as the configuration's draft_vocab_size; the
// target's head is then reduced to their rows. target: that the file was made for; runs: the one
// that runs, which is larger if it is inflated (common/inflation), and then the head is, too.
// Throws Error.
DraftHead load_draft_head(HeadFile& file, const std::string& name, const WeightSource& target,
                          const LlamaConfig& runs, Backend& backend);

// Rows to logits of the target's vocabulary.
class Projection {
 public:
  // token_limit: ids from here on are not tokens. REQUIRES: the target's weights and the head
  // outlive this object.
  Projection(const LlamaModel& target, const DraftHead& head, int token_limit);

  // logits: [rows.rows, V].
  void project(ConstDeviceRows rows, DeviceRows logits);

 private:
  Backend& ops_;
  const WeightMatrix& head_;
  int token_limit_;
  DeviceArray<std::int32_t> row_of_token_;  // [V]; empty: rows are of the tokens 0, 1, 2, ...
  GrowingRows said_;
};

}  // namespace specdec
