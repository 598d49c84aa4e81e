#include "common/pass_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>
#include <utility>

#include "common/base/check.h"

namespace specdec {
namespace {

constexpr std::int32_t kNoTail = std::numeric_limits<std::int32_t>::max();  // see RowPlaces
constexpr std::size_t kLeastUpload = 64;                                    // numbers

// Of an upload. Rounded up, so that many passes copy the same number of bytes.
std::size_t upload_bytes(std::size_t numbers) {
  return std::bit_ceil(std::max(numbers, kLeastUpload)) * sizeof(std::int32_t);
}

}  // namespace

PassPlan::PassPlan(const KvCache& cache, int max_rows, int largest_context)
    : cache_(cache), max_rows_(max_rows), largest_context_(largest_context) {
  SPECDEC_CHECK(max_rows > 0, "passes of at least one row");
  // Tables of all pages together; only batches that share pages can need more.
  const int n_pages = cache.memory().slots() / cache.page_size();
  page_tables_.reserve(n_pages);
  for (auto* list :
       {&ids_, &positions_, &slots_, &table_starts_, &run_starts_, &wanted_, &hidden_}) {
    list->reserve(max_rows);
  }
  const std::ptrdiff_t size = std::ptrdiff_t{7} * max_rows + n_pages;
  cache.memory().backend().parcel(upload_bytes(size));  // so that none needs more memory later
}

void PassPlan::clear() {
  for (auto* list : {&ids_, &positions_, &slots_, &table_starts_, &run_starts_, &wanted_, &hidden_,
                     &page_tables_, &tail_firsts_, &tail_starts_, &tail_slots_}) {
    list->clear();
  }
}

int PassPlan::add(const Segment& segment, int first) {
  const int n_tokens = int_size(segment.tokens);
  const int n_nodes = int_size(segment.parents);
  const int start = cache_.length(segment.sequence) - n_tokens;
  const int end = std::min(n_tokens, first + max_rows_ - rows());
  const std::int32_t table_start = plan_table(segment.sequence);
  for (int i = first; i < end; ++i) {
    if (i >= n_tokens - segment.logits_rows) wanted_.push_back(rows());
    if (i >= n_tokens - segment.hidden.rows) hidden_.push_back(rows());
    int position = start + i;
    if (n_nodes > 0) {
      const int begin = start - (n_nodes - n_tokens);
      position = begin + plan_tail(segment, begin, n_nodes - n_tokens + i);
    }
    plan_row(segment.tokens[i], position, cache_.slot(segment.sequence, start + i), table_start);
  }
  return end;
}

void PassPlan::add_chosen(SequenceId sequence) {
  wanted_.push_back(rows());
  const int position = cache_.length(sequence) - 1;
  plan_row(0, position, cache_.slot(sequence, position), plan_table(sequence));
}

// [snippet plan-tail]
// Plans the tail of the next row, which is a node of a tree. The tree's first node is at place
// `begin` of the cache. Returns the node's depth.
int PassPlan::plan_tail(const Segment& segment, int begin, int node) {
  // [task 8.2: plan a node's tail]
  const int depth = depth_of(node, segment.parents);
  // Rows before this one may have none.
  tail_firsts_.resize(rows(), kNoTail);
  tail_starts_.resize(rows());
  tail_firsts_.push_back(begin);
  tail_starts_.push_back(tail_slots());
  tail_slots_.resize(tail_slots() + depth + 1);
  for (auto slot = tail_slots_.rbegin(); node >= 0; ++slot) {
    *slot = cache_.slot(segment.sequence, begin + node);
    node = segment.parents[node];
  }
  return depth;
  // [end task 8.2]
}
// [end snippet plan-tail]

// Plans the sequence's page table, and returns where it starts.
std::int32_t PassPlan::plan_table(SequenceId sequence) {
  const auto table = cache_.pages(sequence);
  const int start = int_size(page_tables_);
  page_tables_.insert(page_tables_.end(), table.begin(), table.end());
  return start;
}

void PassPlan::plan_row(TokenId token, int position, std::int32_t slot, std::int32_t table_start) {
  if (table_starts_.empty() || table_starts_.back() != table_start) run_starts_.push_back(rows());
  ids_.push_back(token);
  positions_.push_back(position);
  slots_.push_back(slot);
  table_starts_.push_back(table_start);
}

// The context rounded up to a power of two, at least 128, so that passes with about the same
// context are the same operations; but no more than there is memory for.
int PassPlan::context_bucket(int context) const {
  const int rounded = std::bit_ceil(std::max(128u, static_cast<unsigned>(context)));
  return std::max(context, std::min(rounded, largest_context_));
}

PlanOnDevice PassPlan::upload(Backend& ops) {
  const bool has_tails = !tail_slots_.empty();
  if (has_tails) {
    tail_firsts_.resize(rows(), kNoTail);  // rows after the last tail have none
    tail_starts_.resize(rows());
  }
  // [snippet upload-plan]
  const std::array lists = {&ids_,         &wanted_,       &hidden_,     &positions_,
                            &slots_,       &table_starts_, &run_starts_, &tail_firsts_,
                            &tail_starts_, &tail_slots_,   &page_tables_};
  std::size_t numbers = 0;
  for (const auto* list : lists) numbers += list->size();
  const Parcel parcel = ops.parcel(upload_bytes(numbers));
  auto* to = reinterpret_cast<std::int32_t*>(parcel.host);
  for (const auto* list : lists) to = std::ranges::copy(*list, to).out;
  ops.send(upload_bytes(numbers));

  const auto* next = reinterpret_cast<const std::int32_t*>(parcel.device);
  const auto take = [&](const std::vector<std::int32_t>& list) {
    return std::exchange(next, next + list.size());
  };
  PlanOnDevice plan;
  plan.ids = take(ids_);
  plan.wanted = take(wanted_);
  plan.hidden = take(hidden_);
  plan.places.positions = take(positions_);
  plan.places.slots = take(slots_);
  plan.places.table_starts = take(table_starts_);
  plan.places.run_starts = take(run_starts_);
  plan.places.runs = runs();
  if (has_tails) {
    plan.places.tail_firsts = take(tail_firsts_);
    plan.places.tail_starts = take(tail_starts_);
    plan.places.tail_slots = take(tail_slots_);
  }
  plan.places.page_tables = take(page_tables_);
  plan.places.page_size = cache_.page_size();
  plan.places.context = context_bucket(1 + *std::ranges::max_element(positions_));
  // [end snippet upload-plan]
  return plan;
}

}  // namespace specdec
