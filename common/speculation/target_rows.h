#pragma once
#include <span>
#include <vector>

#include "common/forwarding_model.h"
#include "kernels/int_size.h"

namespace specdec {

// A target that keeps rows of the residual stream that its passes computed, for a drafter that
// reads them (used from stage 9 on). They stay in the backend's memory.
class TargetRows final : public ForwardingModel {
 public:
  // Which rows it keeps of each sequence: those of tokens with logits, or of a segment's last
  // token, in its last pass; or those of all tokens.
  enum class Of { kLastPass, kAllTokens };

  // places: of the residual stream (Outputs::places). max_rows: of each of max_sequences sequences;
  // a pass has logits for up to this many of its tokens. For Of::kAllTokens, the most tokens that a
  // sequence has, with the nodes of a tree. REQUIRES: the target hands out rows, and outlives this.
  TargetRows(LanguageModel& target, std::vector<int> places, int max_sequences, int max_rows,
             Of of = Of::kLastPass);

  using LanguageModel::forward;
  void forward(std::span<const Segment> batch, const Outputs& out) override;
  void release(SequenceId sequence) override;
  void truncate(SequenceId sequence, int length) override;
  void keep(SequenceId sequence, int start, std::span<const int> kept) override;

  int width() const { return int_size(places_) * row_width(); }
  // Of memory, if no pass has more than this many tokens.
  std::size_t bytes(int pass_tokens) const;
  // The rows of these tokens from `first` on, [tokens, width()], until the sequence's next pass.
  // Where a prefix cache knew a token, no pass has computed its row: it is computed again, with the
  // tokens after it. REQUIRES: the tokens are all that the sequence has, at least one; `first` is
  // the last one unless the rows of all tokens are kept.
  DeviceRows rows(SequenceId sequence, std::span<const TokenId> cached, int first);
  // Used from stage 10 on, where a sequence holds a tree: until its next pass, rows() is about one
  // path, whose tokens are the first `text` ones and those at these places. REQUIRES: rows of all
  // tokens are kept.
  void follow(SequenceId sequence, int text, std::span<const int> places);
  // The row of the last of these tokens.
  DeviceRows last(SequenceId sequence, std::span<const TokenId> cached) {
    return rows(sequence, cached, int_size(cached) - 1);
  }

 private:
  // The rows of positions first to end - 1; that of position i is row i % kept_rows_ of the part.
  struct Kept {
    int part = kNone;
    int first = 0, end = 0;
  };
  static constexpr int kNone = -1;

  Kept& kept(SequenceId sequence);
  DeviceRows rows_of_path(int n, int first);
  void store(const Segment& segment, const DeviceRows& rows);
  int take_part();
  DeviceRows row(const Kept& kept, int position) const;

  std::vector<int> places_;
  int max_rows_, kept_rows_;
  Of of_;
  std::vector<Segment> batch_;
  DeviceArray<float> passed_;              // grows when a pass hands out more rows
  std::vector<DeviceArray<float>> parts_;  // each [kept_rows_, width]
  std::vector<int> free_parts_;
  std::vector<Kept> kept_;  // by sequence

  // What follow() was told; no sequence: nothing. Its rows, next to each other.
  SequenceId followed_ = kNone;
  int text_ = 0;
  std::vector<int> path_;
  DeviceArray<float> gathered_;  // grows
};

}  // namespace specdec
