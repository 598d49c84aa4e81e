#pragma once
#include <span>
#include <vector>

#include "common/forwarding_model.h"
#include "kernels/int_size.h"

namespace specdec {

// A target that keeps, for each sequence, the rows of the residual stream that its last pass
// computed, for a drafter that reads them (used from stage 9 on). They stay in the backend's
// memory.
class TargetRows final : public ForwardingModel {
 public:
  // places: of the residual stream (Outputs::places). A pass has up to max_sequences segments, each
  // with logits for up to max_rows tokens. REQUIRES: the target hands out rows, and outlives this.
  TargetRows(LanguageModel& target, std::vector<int> places, int max_sequences, int max_rows);

  using LanguageModel::forward;
  // Also asks for the rows of all tokens with logits, or for the row of a segment's last token.
  void forward(std::span<const Segment> batch, const Outputs& out) override;
  void release(SequenceId sequence) override;
  void truncate(SequenceId sequence, int length) override;
  void keep(SequenceId sequence, int start, std::span<const int> kept) override;

  int width() const { return int_size(places_) * row_width(); }
  // The row of the last of these tokens, [1, width()], until the sequence's next pass. Where a
  // prefix cache knew the token, no pass has computed its row: it is computed again, alone.
  // REQUIRES: the tokens are all that the sequence has, at least one.
  DeviceRows last(SequenceId sequence, std::span<const TokenId> cached);

 private:
  // The rows of positions first, first + 1, ...: where each is in the sequence's part.
  struct Kept {
    int part = kNone;
    int first = 0;
    std::vector<int> rows;
  };
  static constexpr int kNone = -1;

  Kept& kept(SequenceId sequence);
  void store(const Segment& segment, const DeviceRows& rows);
  int take_part();
  DeviceRows part(int number) const;

  std::vector<int> places_;
  int max_rows_;
  std::vector<Segment> batch_;
  DeviceArray<float> passed_;              // [max_sequences * max_rows, width]
  std::vector<DeviceArray<float>> parts_;  // each [max_rows + 1, width]
  std::vector<int> free_parts_;
  std::vector<Kept> kept_;  // by sequence
};

}  // namespace specdec
