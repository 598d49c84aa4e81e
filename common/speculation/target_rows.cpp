#include "common/speculation/target_rows.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {

TargetRows::TargetRows(LanguageModel& target, std::vector<int> places, int max_sequences,
                       int max_rows)
    : ForwardingModel(target),
      places_(std::move(places)),
      max_rows_(max_rows),
      passed_(target.backend(), std::size_t(max_sequences) * max_rows * width()) {
  SPECDEC_CHECK(row_width() > 0, "a target that hands out rows");
  batch_.reserve(max_sequences);
  for (int i = 0; i < max_sequences; ++i) {
    parts_.emplace_back(backend(), std::size_t(max_rows + 1) * width());
    free_parts_.push_back(i);
  }
}

void TargetRows::forward(std::span<const Segment> batch, const Outputs& out) {
  int n_rows = 0;
  batch_.assign(batch.begin(), batch.end());
  for (Segment& segment : batch_) {
    segment.hidden.rows = std::max(1, segment.logits_rows);
    n_rows += segment.hidden.rows;
  }
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

// The pass's rows take the place of older ones, but for the row before them.
void TargetRows::store(const Segment& segment, const DeviceRows& rows) {
  SPECDEC_CHECK(rows.rows <= max_rows_, "up to {} rows, not {}", max_rows_, rows.rows);
  Kept& kept = this->kept(segment.sequence);
  if (kept.part == kNone) kept.part = take_part();
  const DeviceRows part = this->part(kept.part);
  const std::size_t bytes_of_row = width() * sizeof(float);
  const int first = length(segment.sequence) - rows.rows;
  const int before = first - 1 - kept.first;
  const bool has_before = 0 <= before && before < int_size(kept.rows);
  if (has_before && kept.rows[before] != 0) {
    backend().copy(part.row(kept.rows[before]), part.row(0), bytes_of_row);
  }
  kept.first = has_before ? first - 1 : first;
  kept.rows.resize(rows.rows + (has_before ? 1 : 0));
  std::iota(kept.rows.begin(), kept.rows.end(), has_before ? 0 : 1);
  backend().copy(rows.data, part.row(1), rows.rows * bytes_of_row);
}

DeviceRows TargetRows::last(SequenceId sequence, std::span<const TokenId> cached) {
  SPECDEC_CHECK(length(sequence) == int_size(cached), "{} tokens, not {}", length(sequence),
                cached.size());
  const int position = int_size(cached) - 1;
  const Kept& kept = this->kept(sequence);
  if (position < kept.first || position >= kept.first + int_size(kept.rows)) {
    forward(Segment{sequence, cached.last(1), 0, {}, {.again = 1}}, {});
  }
  return part(kept.part).slice(kept.rows[position - kept.first], 1);
}

void TargetRows::truncate(SequenceId sequence, int length) {
  ForwardingModel::truncate(sequence, length);
  Kept& kept = this->kept(sequence);
  kept.rows.resize(std::clamp(length - kept.first, 0, int_size(kept.rows)));
}

// Of a tree, the rows of the kept path come together, as its tokens do in the cache.
void TargetRows::keep(SequenceId sequence, int start, std::span<const int> places) {
  ForwardingModel::keep(sequence, start, places);
  Kept& kept = this->kept(sequence);
  const int n = int_size(kept.rows);
  int end = start - kept.first;
  if (end < 0 || end > n) return kept.rows.clear();
  for (const int place : places) {
    if (place - kept.first >= n) break;
    kept.rows[end++] = kept.rows[place - kept.first];
  }
  kept.rows.resize(end);
}

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

DeviceRows TargetRows::part(int number) const {
  return matrix(parts_[number], max_rows_ + 1, width());
}

}  // namespace specdec
