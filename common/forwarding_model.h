#pragma once
#include "common/language_model.h"

namespace specdec {

// Forwards every call to another model: the base of classes that watch a model from outside.
// REQUIRES: the other model outlives this object.
class ForwardingModel : public LanguageModel {
 public:
  explicit ForwardingModel(LanguageModel& model) : model_(model) {}

  using LanguageModel::forward;
  void forward(std::span<const Segment> batch, const Outputs& out) override {
    model_.forward(batch, out);
  }
  void forward_chosen(std::span<const SequenceId> sequences, const std::int32_t* ids,
                      DeviceRows logits) override {
    model_.forward_chosen(sequences, ids, logits);
  }
  bool feeds_from_device() const override { return model_.feeds_from_device(); }
  SequenceId create() override { return model_.create(); }
  SequenceId fork(SequenceId sequence) override { return model_.fork(sequence); }
  void release(SequenceId sequence) override { model_.release(sequence); }
  int length(SequenceId sequence) const override { return model_.length(sequence); }
  void truncate(SequenceId sequence, int length) override { model_.truncate(sequence, length); }
  void keep(SequenceId sequence, int start, std::span<const int> kept) override {
    model_.keep(sequence, start, kept);
  }
  bool can_extend(std::span<const Extension> extensions) const override {
    return model_.can_extend(extensions);
  }
  int vocab_size() const override { return model_.vocab_size(); }
  int max_seq_len() const override { return model_.max_seq_len(); }
  int row_width() const override { return model_.row_width(); }
  int n_blocks() const override { return model_.n_blocks(); }
  Backend& backend() const override { return model_.backend(); }

 private:
  LanguageModel& model_;
};

}  // namespace specdec
