// BatchEngine::check_invariants() and BatchedRounds::check_tokens().

#include <algorithm>
#include <vector>

#include "common/base/check.h"
#include "stages/06_batched_verification/batch_engine.h"

namespace specdec {
namespace {

void check_lengths(const BatchEngine& engine, const RequestState& r) {
  const bool waits = r.phase == Phase::kWaiting;
  SPECDEC_CHECK(waits == (r.sequence == RequestState::kNoSequence),
                "request {} to have a sequence unless it waits; it is {}", r.id,
                phase_name(r.phase));
  if (waits) {
    SPECDEC_CHECK(r.draft_sequence == RequestState::kNoSequence,
                  "request {}, which waits, to have no draft sequence", r.id);
    return;
  }
  const int length = engine.models().target.length(r.sequence);
  const bool due =
      r.phase == Phase::kRunning ? length == r.prefill_end() : !engine.rounds().is_prefilled(r);
  SPECDEC_CHECK(
      due && length <= r.prefill_end(),
      "request {} to have cached what its phase says; it is {} with {} of {} tokens cached", r.id,
      phase_name(r.phase), length, r.context.size());
  if (r.draft_sequence == RequestState::kNoSequence) return;
  const int drafted = engine.rounds().drafter().length(r.draft_sequence);
  SPECDEC_CHECK(drafted <= r.prefill_end(),
                "request {} to have at most {} tokens cached by its draft, not {}", r.id,
                r.prefill_end(), drafted);
}

// The owners of a page are the page tables that contain it, and the prefix cache if that holds it.
// Only a full page may have several owners, because none of its sequences will write to it.
void check_pages(const KvPool& pool, std::string_view name) {
  const PagedKvCache* cache = pool.paged();
  if (cache == nullptr) return;
  std::vector<int> owners(static_cast<std::size_t>(cache->allocator().n_pages()));
  const std::vector<SequenceId> sequences = cache->sequences();
  SPECDEC_CHECK(std::ssize(sequences) == pool.n_sequences(), "{} {} sequences, not {}",
                sequences.size(), name, pool.n_sequences());
  for (const SequenceId sequence : sequences) {
    const auto pages = cache->pages(sequence);
    const int length = cache->length(sequence), size = cache->page_size();
    SPECDEC_CHECK(std::ssize(pages) == pool.pages_of(length),
                  "as many pages as {} tokens need, not {} {} pages", length, pages.size(), name);
    for (std::size_t i = 0; i < pages.size(); i++) {
      owners[pages[i]]++;
      const bool full = (static_cast<int>(i) + 1) * size <= length;
      SPECDEC_CHECK(full || cache->allocator().owners(pages[i]) == 1,
                    "{} page {}, which will be written, not to be shared", name, pages[i]);
    }
  }
  int held = 0, used = 0;
  for (std::int32_t page = 0; page < std::ssize(owners); page++) {
    const int own = owners[page];
    const int counted = cache->allocator().owners(page);
    const bool in_prefixes = pool.prefixes() && pool.prefixes()->holds(page);
    SPECDEC_CHECK(counted == own + (in_prefixes ? 1 : 0), "{} page {} to have {} owners, not {}",
                  name, page, own + (in_prefixes ? 1 : 0), counted);
    held += in_prefixes ? 1 : 0;
    used += counted > 0 ? 1 : 0;
  }
  SPECDEC_CHECK(used == pool.n_used(), "{} {} pages to be used, not {}", used, name, pool.n_used());
  SPECDEC_CHECK(!pool.prefixes() || held == pool.prefixes()->pages(), "{} {} pages to be held",
                held, name);
}

}  // namespace

void BatchedRounds::check_tokens(const RequestState& r) const {
  const auto tokens = r.generation.tokens();
  const auto& prompt = r.request.generation.prompt;
  SPECDEC_CHECK(std::ssize(tokens) == r.stats.run.emitted,
                "request {} to have counted its {} tokens, not {}", r.id, tokens.size(),
                r.stats.run.emitted);
  SPECDEC_CHECK(r.context.size() == prompt.size() + tokens.size() &&
                    std::ranges::equal(prompt, std::span(r.context).first(prompt.size())) &&
                    std::ranges::equal(tokens, std::span(r.context).subspan(prompt.size())),
                "the context of request {} to be its prompt and its tokens", r.id);
}

void BatchEngine::check_invariants() const {
  for (const RequestState* r : requests()) {
    rounds_.check_tokens(*r);
    check_lengths(*this, *r);
  }
  const auto older = [](const RequestState* a, const RequestState* b) { return a->id < b->id; };
  SPECDEC_CHECK(
      std::ranges::is_sorted(admitted(), older) && std::ranges::is_sorted(waiting(), older),
      "both lists to be in order of age");
  SPECDEC_CHECK(
      admitted().empty() || waiting().empty() || older(admitted().back(), waiting().front()),
      "no request to be overtaken");
  SPECDEC_CHECK(admitted().size() + waiting().size() == states_.size(),
                "every request to be admitted or to wait");
  check_pages(target_pool_, "target");
  check_pages(draft_pool_, "draft");
}

}  // namespace specdec
