#pragma once
#include <memory>
#include <span>
#include <vector>

#include "common/speculation/target_rows.h"
#include "kernels/int_size.h"
#include "stages/09_self_drafting/feature_model.h"

namespace specdec {

// Several feature layers, of which each makes one draft of a round (MTP with several modules). The
// first one reads the target's rows, and each other one the rows of the layer before it, for the
// token before: so its row of a token knows one token less of the text than that layer's row.
class FeatureModules final : public LanguageModel, public RoundModel {
 public:
  // Two or more, in this order, each without sequences.
  explicit FeatureModules(std::vector<std::unique_ptr<FeatureModel>> modules);

  // As FeatureModel::read().
  void read(TargetRows& rows) { modules_.front()->read(rows); }

  int shortest_context() const override { return modules_.back()->shortest_context(); }
  int max_drafts() const override { return int_size(modules_); }
  bool at_once() const override { return false; }
  void begin(std::span<const DraftRequest> requests) override;

  using LanguageModel::forward;
  // REQUIRES: the sequences are among those of begin(); logits are of the pending token and of
  // drafts after it, fewer than max_drafts() in a row.
  void forward(std::span<const Segment> batch, const Outputs& out) override;

  SequenceId create() override;
  SequenceId fork(SequenceId sequence) override;
  void release(SequenceId sequence) override;
  int length(SequenceId sequence) const override { return modules_.back()->length(sequence); }
  void truncate(SequenceId sequence, int length) override;
  void keep(SequenceId sequence, int start, std::span<const int> kept) override;
  bool can_extend(std::span<const Extension> extensions) const override;
  int vocab_size() const override { return modules_.front()->vocab_size(); }
  int max_seq_len() const override { return modules_.front()->max_seq_len(); }
  Backend& backend() const override { return modules_.front()->backend(); }

  const FeatureModel& module(int i) const { return *modules_[i]; }

 private:
  int drafts_before(const Segment& segment, int token) const;
  void plan(std::span<const Segment> batch);
  void run(int module, DeviceRows logits);

  std::vector<std::unique_ptr<FeatureModel>> modules_;
  std::vector<int> pending_;  // by sequence: the place of the round's pending token
  // Of a forward(): which module says each row of logits, and which one is the first to be fed each
  // segment.
  std::span<const Segment> batch_;
  std::vector<int> module_of_row_, first_module_;
  std::vector<Segment> fed_;  // what one module is fed
  GrowingRows logits_;        // of one module
};

}  // namespace specdec
