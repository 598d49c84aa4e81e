#include "stages/programs/batch/memory_plan.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "common/base/json_value.h"
#include "common/llama.h"
#include "stages/03_paged_kv_cache/page_allocator.h"
#include "stages/programs/cache/make_cache.h"

namespace specdec {
namespace {

constexpr int kLeastTokenBudget = 256;
constexpr int kPromptRows = 32;  // left for prompts beside the rounds of a full batch, at least

int pages_of(std::int64_t tokens, int page_size) {
  return pages_for(static_cast<int>(tokens), page_size);
}

// Pages for the largest `at_a_time` of the requests together.
int pages_for_all(std::vector<std::int64_t> tokens, int page_size, int at_a_time) {
  std::ranges::sort(tokens, std::greater());
  std::int64_t pages = 0;
  for (int i = 0; i < std::min<int>(at_a_time, static_cast<int>(tokens.size())); i++) {
    pages += pages_of(tokens[static_cast<std::size_t>(i)], page_size);
  }
  return static_cast<int>(std::min<std::int64_t>(std::max<std::int64_t>(pages, 1),
                                                 std::numeric_limits<int>::max() / page_size));
}

// What the system says is available without swapping (Linux); 0 where it does not say.
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

// Of a pass over this many rows.
std::size_t activations(const LlamaConfig& c, int rows) {
  const int widths = 3 * c.d_model + (2 * c.n_heads + 2 * c.n_kv_heads) * c.head_dim + 3 * c.d_ff;
  return count(rows, widths, sizeof(float));
}

std::string size(std::size_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) return fmt::format("{:.2f} GB", value / 1e9);
  return fmt::format("{:.1f} MB", value / 1e6);
}

}  // namespace

BatchSizes batch_sizes(const RunOptions& options, std::span<const BatchRequest> requests,
                       const RoundCapacity& capacity) {
  BatchSizes sizes;
  for (const BatchRequest& request : requests) {
    sizes.spec_length = std::max(sizes.spec_length, request.spec_length);
  }
  sizes.round = capacity(sizes.spec_length);
  std::vector<std::int64_t> cached, cached_by_draft;
  for (const BatchRequest& request : requests) {
    const MostCached most = most_cached(request, capacity, std::numeric_limits<int>::max());
    cached.push_back(most.by_target);
    cached_by_draft.push_back(most.by_draft);
    sizes.longest = std::max(sizes.longest, cached.back());
  }
  sizes.max_batch = std::clamp(static_cast<int>(requests.size()), 1, options.max_batch);
  const int rows = sizes.max_batch * sizes.round.rows();
  sizes.token_budget = options.token_budget > 0 ? options.token_budget
                                                : std::max(kLeastTokenBudget, rows + kPromptRows);
  sizes.draft_is_model = sizes.spec_length > 0 && (options.draft_kind == DraftKind::kLlama ||
                                                   options.draft_kind == DraftKind::kSelf);
  if (options.cache == CacheKind::kContiguous) {
    sizes.pages = sizes.draft_pages = sizes.max_batch;
    return sizes;
  }
  sizes.pages =
      options.pages > 0 ? options.pages : pages_for_all(cached, options.page_size, sizes.max_batch);
  sizes.draft_pages =
      options.draft_pages > 0
          ? options.draft_pages
          : pages_for_all(cached_by_draft, options.draft_page_size, sizes.max_batch);
  return sizes;
}

MemoryPlan memory_plan(const RunOptions& options, const BatchSizes& sizes, const LlamaModel& target,
                       const LlamaModel* draft) {
  const bool paged = options.cache == CacheKind::kPaged;
  const auto cache = [&](const LlamaModel& model, int pages, int page_size, std::int64_t region) {
    return count(pages, paged ? page_size : region,
                 model.kv_shape(options.kv_type).bytes_per_token());
  };
  const Capacity& round = sizes.round;
  const int B = sizes.max_batch, V = target.config().vocab_size;
  const auto longest = std::max<std::int64_t>(sizes.longest, 1);
  MemoryPlan plan;
  plan.sizes = sizes;
  plan.available = available_bytes();
  plan.target_weights = weights(target);
  plan.target_cache = cache(target, sizes.pages, options.page_size, longest);
  plan.logits = count(B, round.rows(), V, sizeof(float));
  plan.distributions = count(B, round.probs, V, sizeof(double));
  plan.activations = activations(target.config(), sizes.token_budget);
  if (draft != nullptr) {
    if (draft != &target) plan.draft_weights = weights(*draft);
    const auto region =
        std::min<std::int64_t>(longest, draft->config().max_seq_len) + round.branches();
    plan.draft_cache = cache(*draft, sizes.draft_pages, options.draft_page_size, region);
    plan.logits += count(B, round.width, draft->config().vocab_size, sizeof(float));
    plan.activations += activations(draft->config(), LlamaOptions().max_pass_rows);
  }
  plan.page_size = paged ? options.page_size : static_cast<int>(sizes.longest);
  plan.longest_fit =
      sizes.longest == 0 || !paged
          ? sizes.max_batch
          : std::min(sizes.max_batch, sizes.pages / pages_of(sizes.longest, options.page_size));
  return plan;
}

std::string MemoryPlan::to_text() const {
  std::string text = fmt::format("weights: target {}, draft {}\n", size(target_weights),
                                 draft_weights > 0 ? size(draft_weights) : "none of its own");
  text += fmt::format("caches: target {} ({} pages of {} tokens)", size(target_cache), sizes.pages,
                      page_size);
  if (draft_cache > 0)
    text += fmt::format(", draft {} ({} pages)", size(draft_cache), sizes.draft_pages);
  text += fmt::format("\nscratch: logits {}, distributions of drafts {}, activations {}\n",
                      size(logits), size(distributions), size(activations));
  text += fmt::format("in all {}", size(total()));
  if (available > 0) text += fmt::format(", {} were available", size(available));
  return text + fmt::format("; {} requests at a time, {} of the longest ({} tokens) fit\n",
                            sizes.max_batch, longest_fit, sizes.longest);
}

Json MemoryPlan::to_json() const {
  return {{"target_weights", target_weights},
          {"draft_weights", draft_weights},
          {"target_cache", target_cache},
          {"draft_cache", draft_cache},
          {"logits", logits},
          {"distributions", distributions},
          {"activations", activations},
          {"total", total()}};
}

}  // namespace specdec
