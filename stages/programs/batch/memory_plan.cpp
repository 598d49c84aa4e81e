#include "stages/programs/batch/memory_plan.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "common/base/json_value.h"
#include "common/llama.h"
#include "kernels/int_size.h"
#include "stages/03_paged_kv_cache/page_allocator.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/run/draft_length.h"

namespace specdec {
namespace {

constexpr int kLeastTokenBudget = 256;
constexpr int kMost = std::numeric_limits<int>::max();
constexpr int kPromptRows = 32;  // the fewest rows for prompts next to a full batch of rounds

int pages_of(std::int64_t tokens, int page_size) {
  return pages_for(static_cast<int>(tokens), page_size);
}

// Limits a number of pages, so that an int can count their slots.
int countable(std::int64_t pages, int page_size) {
  return static_cast<int>(std::clamp<std::int64_t>(pages, 1, kMost / page_size));
}

// Pages for the `at_a_time` longest requests together.
int pages_for_all(std::vector<std::int64_t> tokens, int page_size, int at_a_time) {
  std::ranges::sort(tokens, std::greater());
  std::int64_t pages = 0;
  for (int i = 0; i < std::min<int>(at_a_time, int_size(tokens)); i++) {
    pages += pages_of(tokens[i], page_size);
  }
  return countable(pages, page_size);
}

// Verified drafts that are not on one longest path. They need slots in addition to the text's.
int beside_the_path(const Capacity& round) { return std::max(0, round.verified - round.levels); }

int rows_of(int requests, const Capacity& round) { return requests * round.rows(); }

// The largest K of the requests, but above --spec-length only as far as --token-budget allows.
int largest_of(std::span<const BatchRequest> requests, const RunOptions& options,
               const RoundCapacity& capacity) {
  int K = 0;
  for (const BatchRequest& request : requests) K = std::max(K, request.spec_length);
  while (K > spec_length_of(options) && options.token_budget > 0 &&
         rows_of(options.max_batch, capacity(K)) > options.token_budget) {
    --K;
  }
  return K;
}

// The bytes that are available without swapping (Linux); 0 if the system does not say.
std::size_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (std::size_t kilobytes = 0; file >> name >> kilobytes; std::getline(file, unit)) {
    if (name == "MemAvailable:") return kilobytes * 1024;
  }
  return 0;
}

std::size_t weights(const LlamaModel& model) {
  const bool untied = &model.head() != &model.embedding();
  return model.layer_bytes() + model.head().bytes() + (untied ? model.embedding().bytes() : 0);
}

std::size_t count(auto... factors) {
  return (std::size_t{1} * ... * static_cast<std::size_t>(factors));
}

// The bytes of a cache: of pages, or of regions of this length.
std::size_t cache_bytes(const RunOptions& options, const LlamaModel& model, int pages,
                        int page_size, int region) {
  return count(pages, options.cache == CacheKind::kPaged ? page_size : region,
               model.kv_shape(options.kv_type).bytes_per_token());
}

// What drafters of stage 9 take. A draft model that drafts in parallel keeps the logits of a round,
// and its correction as many as the drafter.
void add_heads(MemoryPlan& plan, const RunOptions& options, const HeadsMemory& heads,
               int vocab_size) {
  if (plan.sizes.spec_length == 0) return;
  const Capacity& round = plan.sizes.capacity;
  const auto rows = [&](int of_request) {
    return count(round.requests, of_request, vocab_size, sizeof(float));
  };
  plan.draft_weights += heads.weights;
  plan.draft_cache += heads.cache;
  plan.target_rows = heads.target_rows;
  plan.logits += heads.logits;
  plan.activations += heads.activations;
  if (options.draft_kind == DraftKind::kHeads) plan.logits += rows(round.width);
  if (options.drafts_in_parallel()) plan.logits += rows(round.levels);
  if (!options.markov.empty()) plan.logits += rows(round.width);
}

std::string size(std::size_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) return fmt::format("{:.2f} GB", value / 1e9);
  return fmt::format("{:.1f} MB", value / 1e6);
}

}  // namespace

std::size_t activations(const LlamaConfig& c, int rows) {
  const int widths = 3 * c.d_model + (2 * c.n_heads + 2 * c.n_kv_heads) * c.head_dim + 3 * c.d_ff;
  return count(rows, widths, sizeof(float));
}

int token_budget_for(int rows) { return std::max(kLeastTokenBudget, rows + kPromptRows); }

BatchSizes batch_sizes(const RunOptions& options, int max_seq_len, const RoundCapacity& capacity) {
  BatchSizes sizes;
  sizes.available = available_bytes();
  sizes.spec_length = spec_length_of(options);
  sizes.capacity = capacity(sizes.spec_length);
  Capacity& round = sizes.capacity;
  const int context = options.max_context > 0 ? options.max_context : max_seq_len;
  round.requests = options.max_batch;
  round.context = context + beside_the_path(round);
  const int rows = rows_of(options.max_batch, round);
  sizes.token_budget = options.token_budget > 0 ? options.token_budget : token_budget_for(rows);
  sizes.draft_is_model = sizes.spec_length > 0 && needs_model(options.draft_kind);
  if (options.cache == CacheKind::kContiguous) {
    sizes.pages = round.pages = options.max_batch;
    return sizes;
  }
  const auto pages_or = [&](int given, int tokens, int page_size) {
    if (given > 0) return given;
    return countable(std::int64_t{options.max_batch} * pages_of(tokens, page_size), page_size);
  };
  sizes.pages = pages_or(options.pages, round.context, options.page_size);
  round.pages = pages_or(options.draft_pages, context + round.branches(), options.draft_page_size);
  return sizes;
}

RunOptions sized_for(std::span<const BatchRequest> requests, RunOptions options,
                     const RoundCapacity& capacity,
                     const std::function<MostCached(const BatchRequest&)>& most_of) {
  std::vector<std::int64_t> cached, cached_by_draft;
  for (const BatchRequest& request : requests) {
    if (!request.error.empty()) continue;
    const MostCached most = most_of ? most_of(request) : most_cached(request, capacity, kMost);
    cached.push_back(most.by_target);
    cached_by_draft.push_back(most.by_draft);
  }
  options.max_batch = std::clamp(int_size(cached), 1, options.max_batch);
  const int K = largest_of(requests, options, capacity);
  options.no_speculation = K == 0;
  if (K > 0) options.spec_length = K;
  options.given_spec_length = true;
  const std::int64_t longest = cached.empty() ? 1 : std::ranges::max(cached);
  options.max_context =
      static_cast<int>(std::clamp<std::int64_t>(longest - beside_the_path(capacity(K)), 1, kMost));
  if (options.pages == 0) {
    options.pages = pages_for_all(cached, options.page_size, options.max_batch);
  }
  if (options.draft_pages == 0) {
    options.draft_pages =
        pages_for_all(cached_by_draft, options.draft_page_size, options.max_batch);
  }
  return options;
}

void add_beside(MemoryPlan& plan, const RunOptions& options, const LlamaModel& draft) {
  const Capacity& round = plan.sizes.capacity;
  const int region = std::min(round.context, draft.config().max_seq_len) + round.branches();
  plan.draft_weights += weights(draft);
  plan.draft_cache += cache_bytes(options, draft, round.pages, options.draft_page_size, region);
  plan.activations += activations(draft.config(), LlamaOptions().max_pass_rows);
}

MemoryPlan memory_plan(const RunOptions& options, const BatchSizes& sizes, const LlamaModel& target,
                       const LlamaModel* draft, const HeadsMemory& heads) {
  const bool paged = options.cache == CacheKind::kPaged;
  const Capacity& round = sizes.capacity;
  const int B = round.requests, V = target.config().vocab_size, longest = round.context;
  MemoryPlan plan;
  plan.sizes = sizes;
  plan.target_weights = weights(target);
  plan.target_cache = cache_bytes(options, target, sizes.pages, options.page_size, longest);
  plan.logits = count(B, round.rows(), V, sizeof(float));
  plan.distributions = count(B, round.probs, V, sizeof(double));
  plan.activations = activations(target.config(), sizes.token_budget);
  if (draft != nullptr) {
    add_beside(plan, options, *draft);
    if (draft == &target) plan.draft_weights = 0;
    plan.logits += count(B, round.width, draft->config().vocab_size, sizeof(float));
  }
  add_heads(plan, options, heads, V);
  plan.page_size = paged ? options.page_size : longest;
  plan.longest_fit = paged ? std::min(B, sizes.pages / pages_of(longest, options.page_size)) : B;
  return plan;
}

std::string MemoryPlan::to_text() const {
  std::string text = fmt::format("weights: target {}, draft {}\n", size(target_weights),
                                 draft_weights > 0 ? size(draft_weights) : "none of its own");
  text += fmt::format("caches: target {} ({} pages of {} tokens)", size(target_cache), sizes.pages,
                      page_size);
  if (draft_cache > 0) text += fmt::format(", draft {}", size(draft_cache));
  if (draft_cache > 0 && sizes.draft_is_model) {
    text += fmt::format(" ({} pages)", sizes.capacity.pages);
  }
  if (target_rows > 0) text += fmt::format(", rows for the heads {}", size(target_rows));
  text += fmt::format("\nscratch: logits {}, distributions of drafts {}, activations {}\n",
                      size(logits), size(distributions), size(activations));
  text += fmt::format("in all {}", size(total()));
  if (sizes.available > 0) {
    text += fmt::format(", {} were available", size(sizes.available));
  }
  return text + fmt::format("; {} requests at a time, {} of the longest ({} tokens) fit\n",
                            sizes.capacity.requests, longest_fit, sizes.capacity.context);
}

Json MemoryPlan::to_json() const {
  return {{"target_weights", target_weights},
          {"draft_weights", draft_weights},
          {"target_cache", target_cache},
          {"draft_cache", draft_cache},
          {"kept_rows", target_rows},
          {"logits", logits},
          {"distributions", distributions},
          {"activations", activations},
          {"total", total()}};
}

}  // namespace specdec
