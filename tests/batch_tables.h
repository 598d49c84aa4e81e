#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "stages/02_contiguous_kv_cache/contiguous_kv_cache.h"
#include "stages/programs/cache/make_cache.h"
#include "tests/batch_fixture.h"
#include "tests/paged_table_model.h"

namespace specdec::batch {

// Rows of logits [V], of which the whole prefix chooses one: any wrong token before a row, however
// far back, makes it another row.
class PrefixTable {
 public:
  static constexpr std::size_t kRows = 97;

  explicit PrefixTable(std::vector<Probs> weights) {
    for (const Probs& row : weights) {
      for (const double weight : row) logits_.push_back(static_cast<float>(std::log(weight)));
    }
    V_ = weights[0].size();
  }

  TableModel::RowOf row_of() const {  // REQUIRES: the table outlives the function
    return [this](std::span<const TokenId> prefix) {
      std::uint64_t hash = 0;
      for (const TokenId token : prefix)
        hash = (hash + std::uint64_t(token) + 1) * 0x9e3779b97f4a7c15;
      return std::span<const float>(logits_).subspan((hash >> 32) % kRows * V_, V_);
    };
  }
  int vocab_size() const { return static_cast<int>(V_); }

 private:
  std::size_t V_ = 0;
  std::vector<float> logits_;  // [kRows, V]
};

// A target's table, and a draft's that mostly agrees with it.
struct TablePair {
  TablePair(int vocab_size, double disagreement, std::mt19937& random) {
    std::vector<Probs> target_rows, draft_rows;
    for (std::size_t i = 0; i < PrefixTable::kRows; i++) {
      const Probs p = random_weights(vocab_size, 0.2, random);
      const Probs other = random_weights(vocab_size, 0, random);
      Probs q(p.size());
      for (std::size_t j = 0; j < q.size(); j++) {
        q[j] = (1 - disagreement) * p[j] + disagreement * other[j];
      }
      target_rows.push_back(p);
      draft_rows.push_back(q);
    }
    target.emplace(target_rows);
    draft.emplace(draft_rows);
  }
  std::optional<PrefixTable> target, draft;
};

// A cache for PagedTableModel. page_size kNoPages: as many regions of all positions.
inline std::unique_ptr<KvCache> make_table_cache(Backend& backend, int page_size, int pages,
                                                 int regions, int positions) {
  const KvShape shape{1, 1, 1};
  if (page_size == kNoPages) {
    return std::make_unique<ContiguousKvCache>(backend, shape, regions, positions);
  }
  return std::make_unique<PagedKvCache>(backend, shape, pages, page_size);
}

// The sizes of an engine on tables.
struct TableShape {
  int page_size = 3, draft_page_size = 3;  // kNoPages: stage 2's cache
  int pages = 100, draft_pages = 100;
  int positions = 128, draft_positions = 1 << 20;  // contexts of the models
  EngineOptions options = {.max_batch = 4,
                           .spec_length = 4,
                           .token_budget = 64,
                           .prefill_chunk = 16,
                           .prefix_cache = true,
                           .check_invariants = true};
};

// How an engine's drafts are made and judged; by default as in stage 5.
struct RoundKind {
  Capacity room;  // of the largest round
  std::function<std::unique_ptr<Drafter>(LanguageModel& draft, int max_context, int max_requests)>
      make_drafter = [](LanguageModel& draft, int max_context, int max_requests) {
        return std::make_unique<SamplingDrafter>(draft, max_context, max_requests);
      };
  bool draft_has_cache = true;
  Judging judging = {};
};

// An engine on real caches, and what a request comes to on plain tables.
class TableEngine {
 public:
  TableEngine(const TablePair& tables, const TableShape& shape)
      : TableEngine(tables, shape, {.room = Capacity::of_chain(shape.options.spec_length)}) {}
  TableEngine(const TablePair& tables, const TableShape& shape, const RoundKind& kind)
      : tables_(tables),
        shape_(shape),
        backend_(make_plain_backend()),
        target_cache_(make_table_cache(*backend_, shape.page_size, shape.pages,
                                       shape.options.max_batch,
                                       shape.positions + kind.room.branches())),
        draft_cache_(make_table_cache(*backend_, shape.draft_page_size, shape.draft_pages,
                                      shape.options.max_batch, shape.positions + kind.room.nodes)),
        target(*target_cache_, V(), tables.target->row_of(), shape.positions),
        draft(*draft_cache_, V(), tables.draft->row_of(), shape.draft_positions),
        drafter(
            kind.make_drafter(draft, shape.positions + kind.room.levels, shape.options.max_batch)),
        engine({.target = target,
                .target_cache = *target_cache_,
                .drafter = *drafter,
                .draft_cache = kind.draft_has_cache ? draft_cache_.get() : nullptr,
                .judging = kind.judging},
               shape.options) {}

  Outcome alone(const BatchRequest& request) const {
    TableModel model = target_table(), small = draft_table();
    SamplingDrafter by(small, shape_.positions + 1);
    return run_alone(model, by, request);
  }
  // Stage 4's rounds. REQUIRES: is_plainly_greedy(request).
  Outcome alone_greedily(const BatchRequest& request) const {
    TableModel model = target_table(), small = draft_table();
    SamplingDrafter by(small, shape_.positions + 1);
    return run_alone_greedily(model, by, request);
  }

 protected:
  int V() const { return tables_.target->vocab_size(); }
  TableModel target_table() const { return {V(), tables_.target->row_of(), shape_.positions}; }
  TableModel draft_table() const { return {V(), tables_.draft->row_of(), shape_.draft_positions}; }

  const TablePair& tables_;
  TableShape shape_;

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<KvCache> target_cache_, draft_cache_;

 public:
  PagedTableModel target, draft;
  std::unique_ptr<Drafter> drafter;
  BatchEngine engine;
};

}  // namespace specdec::batch
