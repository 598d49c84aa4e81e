#include "common/speculation/target_rows.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {

TargetRows::TargetRows(LanguageModel& target, std::vector<int> places, int max_sequences,
                       int max_rows, Of of)
    : ForwardingModel(target),
      places_(std::move(places)),
      max_rows_(max_rows),
      kept_rows_(max_rows + 1),  // and the row before those of the last pass
      of_(of) {
  SPECDEC_CHECK(row_width() > 0, "a target that hands out rows");
  batch_.reserve(max_sequences);
  for (int i = 0; i < max_sequences; ++i) {
    parts_.emplace_back(backend(), std::size_t(kept_rows_) * width());
    free_parts_.push_back(i);
  }
  if (of == Of::kAllTokens) return;  // how many a pass has, prompts decide
  passed_ = DeviceArray<float>(backend(), std::size_t(max_sequences) * max_rows * width());
}

void TargetRows::forward(std::span<const Segment> batch, const Outputs& out) {
  followed_ = kNone;
  int n_rows = 0;
  batch_.assign(batch.begin(), batch.end());
  for (Segment& segment : batch_) {
    segment.hidden.rows =
        of_ == Of::kAllTokens ? int_size(segment.tokens) : std::max(1, segment.logits_rows);
    n_rows += segment.hidden.rows;
  }
  const std::size_t wanted = std::size_t(n_rows) * width();
  if (passed_.size() < wanted) passed_ = DeviceArray<float>(backend(), wanted);
  Outputs with_rows = out;
  with_rows.hidden = matrix(passed_, n_rows, width());
  with_rows.places = places_;
  ForwardingModel::forward(batch_, with_rows);
  int row = 0;
  for (const Segment& segment : batch_) {
    store(segment, with_rows.hidden.slice(row, segment.hidden.rows));
    row += segment.hidden.rows;
  }
}

std::size_t TargetRows::bytes(int pass_tokens) const {
  const std::size_t kept = parts_.size() * kept_rows_ * width();
  const std::size_t passed =
      of_ == Of::kAllTokens ? std::size_t(pass_tokens) * width() : passed_.size();
  return (kept + passed) * sizeof(float);
}

// The pass's rows join those before them, and take the place of the oldest.
void TargetRows::store(const Segment& segment, const DeviceRows& rows) {
  SPECDEC_CHECK(rows.rows <= max_rows_, "up to {} rows, not {}", max_rows_, rows.rows);
  Kept& kept = this->kept(segment.sequence);
  if (kept.part == kNone) kept.part = take_part();
  const int end = length(segment.sequence), first = end - rows.rows;
  if (first < kept.first || first > kept.end) kept.first = first;
  kept.first = std::max(kept.first, end - kept_rows_);
  kept.end = end;
  for (int position = first; position < end;) {
    const int n = std::min(end - position, kept_rows_ - position % kept_rows_);
    backend().copy(rows.row(position - first), row(kept, position).data,
                   std::size_t(n) * width() * sizeof(float));
    position += n;
  }
}

DeviceRows TargetRows::rows(SequenceId sequence, std::span<const TokenId> cached, int first) {
  const int n = int_size(cached);
  if (sequence == followed_) return rows_of_path(n, first);
  SPECDEC_CHECK(length(sequence) == n, "{} tokens, not {}", length(sequence), n);
  SPECDEC_CHECK(0 <= first && first < n && (first == n - 1 || of_ == Of::kAllTokens),
                "rows of some of {} tokens, not from {} on", n, first);
  if (const Kept& kept = this->kept(sequence); first < kept.first || kept.end < n) {
    const auto lost = cached.subspan(first);
    forward(Segment{sequence, lost, 0, {}, {.again = int_size(lost)}}, {});
  }
  const DeviceRows row = this->row(kept(sequence), first);
  return {row.data, n - first, row.width, row.stride};
}

void TargetRows::follow(SequenceId sequence, int text, std::span<const int> places) {
  SPECDEC_CHECK(of_ == Of::kAllTokens, "rows of all tokens");
  followed_ = sequence;
  text_ = text;
  path_.assign(places.begin(), places.end());
}

// The rows of the path's tokens from `first` on. n: of all of them.
DeviceRows TargetRows::rows_of_path(int n, int first) {
  SPECDEC_CHECK(text_ + int_size(path_) == n && 0 <= first && first < n, "a path of {} tokens", n);
  const Kept& kept = this->kept(followed_);
  const std::size_t wanted = std::size_t(n - first) * width();
  if (gathered_.size() < wanted) gathered_ = DeviceArray<float>(backend(), wanted);
  const DeviceRows rows = matrix(gathered_, n - first, width());
  for (int i = first; i < n; i++) {
    const int place = i < text_ ? i : path_[i - text_];
    SPECDEC_CHECK(kept.first <= place && place < kept.end, "the row of token {}", place);
    backend().copy(row(kept, place).data, rows.row(i - first), width() * sizeof(float));
  }
  return rows;
}

void TargetRows::truncate(SequenceId sequence, int length) {
  ForwardingModel::truncate(sequence, length);
  Kept& kept = this->kept(sequence);
  kept.end = std::min(kept.end, length);
  kept.first = std::min(kept.first, kept.end);
}

// [snippet keep-rows]
// In a tree, the rows of the kept path move next to each other, as its tokens do in the cache.
void TargetRows::keep(SequenceId sequence, int start, std::span<const int> places) {
  ForwardingModel::keep(sequence, start, places);
  Kept& kept = this->kept(sequence);
  // [task 9.1: keep the rows of the path]
  if (start < kept.first || start > kept.end) {
    kept.end = kept.first;
    return;
  }
  int end = start;
  for (const int place : places) {
    if (place >= kept.end) break;
    const DeviceRows from = row(kept, place), to = row(kept, end++);
    if (from.data != to.data) backend().copy(from.data, to.data, width() * sizeof(float));
  }
  kept.end = end;
  // [end task 9.1]
}
// [end snippet keep-rows]

void TargetRows::release(SequenceId sequence) {
  ForwardingModel::release(sequence);
  Kept& kept = this->kept(sequence);
  if (kept.part != kNone) free_parts_.push_back(kept.part);
  kept = {};
}

TargetRows::Kept& TargetRows::kept(SequenceId sequence) {
  if (sequence >= int_size(kept_)) kept_.resize(sequence + 1);
  return kept_[sequence];
}

int TargetRows::take_part() {
  SPECDEC_CHECK(!free_parts_.empty(), "at most {} sequences", parts_.size());
  const int part = free_parts_.back();
  free_parts_.pop_back();
  return part;
}

DeviceRows TargetRows::row(const Kept& kept, int position) const {
  return matrix(parts_[kept.part], kept_rows_, width()).slice(position % kept_rows_, 1);
}

}  // namespace specdec
