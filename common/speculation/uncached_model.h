#pragma once
#include <limits>
#include <span>
#include <vector>

#include "common/language_model.h"

namespace specdec {

// A language model that keeps nothing of a sequence but its length: the base of tables and heads.
class UncachedModel : public LanguageModel {
 public:
  // max_sequences: how many can exist at a time.
  explicit UncachedModel(int max_sequences);

  SequenceId create() override;  // throws CacheFull when all are in use
  SequenceId fork(SequenceId sequence) override;
  void release(SequenceId sequence) override;
  int length(SequenceId sequence) const override;
  void truncate(SequenceId sequence, int length) override;
  void keep(SequenceId sequence, int start, std::span<const int> kept) override;
  bool can_extend(std::span<const Extension> extensions) const override;
  int max_seq_len() const override { return std::numeric_limits<int>::max(); }

 protected:
  // What forward() has to check, and how lengths grow: to be called before rows are written. Aborts
  // or throws before anything has changed.
  void extend(std::span<const Segment> batch, const Outputs& out);

 private:
  std::vector<int> lengths_;           // [max_sequences]; kFree where there is no sequence
  std::vector<Extension> extensions_;  // of one forward
};

}  // namespace specdec
