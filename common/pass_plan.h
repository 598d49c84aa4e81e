#pragma once
#include <cstdint>
#include <vector>

#include "common/kv_cache.h"
#include "common/language_model.h"
#include "kernels/int_size.h"
#include "kernels/ops.h"

namespace specdec {

// A plan in device memory.
struct PlanOnDevice {
  const std::int32_t* ids = nullptr;     // [T]
  const std::int32_t* wanted = nullptr;  // [rows of logits]
  const std::int32_t* hidden = nullptr;  // [rows of the residual stream]
  RowPlaces places;
};

// The rows of one pass: their tokens, positions, slots and page tables, in lists on the host that
// go to the device in one copy.
class PassPlan {
 public:
  // max_rows: of a pass. largest_context: no position is above it.
  // REQUIRES: the cache outlives this object.
  PassPlan(const KvCache& cache, int max_rows, int largest_context);

  void clear();
  int rows() const { return int_size(ids_); }
  bool is_full() const { return rows() == max_rows_; }
  int wanted_rows() const { return int_size(wanted_); }     // rows whose logits are wanted
  int hidden_rows() const { return int_size(hidden_); }     // rows that are handed out
  int tail_slots() const { return int_size(tail_slots_); }  // of all tails together
  int runs() const { return int_size(run_starts_); }        // see RowPlaces

  // Plans as many of the segment's tokens as fit, from token `first` on, and returns the first one
  // that does not fit. REQUIRES: the cache has slots for all tokens of the segment.
  int add(const Segment& segment, int first);

  // Plans the last cached token of a sequence, whose id only the device knows (the plan holds 0).
  // Its logits are wanted.
  void add_chosen(SequenceId sequence);

  // The plan on the device, valid until a result comes back to the host, or until the next upload.
  PlanOnDevice upload(Backend& ops);

 private:
  int plan_tail(const Segment& segment, int begin, int node);
  std::int32_t plan_table(SequenceId sequence);
  void plan_row(TokenId token, int position, std::int32_t slot, std::int32_t table_start);
  int context_bucket(int context) const;

  const KvCache& cache_;
  int max_rows_, largest_context_;
  std::vector<std::int32_t> ids_, positions_, slots_, table_starts_;  // [T]
  std::vector<std::int32_t> wanted_, hidden_;                         // rows that are wanted
  std::vector<std::int32_t> run_starts_, page_tables_;
  std::vector<std::int32_t> tail_firsts_, tail_starts_;  // [T] if a row is a node of a tree
  std::vector<std::int32_t> tail_slots_;
};

}  // namespace specdec
