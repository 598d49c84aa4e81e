// The checks by which BatchEngine::add_request() refuses requests.
#include "stages/06_batched_verification/batch_engine.h"

namespace specdec {

void BatchEngine::check_request(const BatchRequest& request) const {
  if (!request.error.empty()) fail("{}", request.error);
  const GenerationRequest& g = request.generation;
  check_speculation_options(request.speculation);
  if (request.spec_length < 0 || request.spec_length > options_.spec_length) {
    fail("--spec-length {}: this engine has room for 0 to {}", request.spec_length,
         options_.spec_length);
  }
  if (g.prompt.empty()) fail("the prompt has no tokens");
  const int limit = models_.token_limit > 0 ? models_.token_limit : models_.target.vocab_size();
  for (const TokenId id : g.prompt) {
    if (id < 0 || id >= limit) {
      fail("prompt id {} is outside the vocabulary of {} tokens", id, limit);
    }
  }
  if (g.max_new_tokens < 1) fail("--max-new-tokens is {}; it takes at least 1", g.max_new_tokens);
  for (const std::string& text : g.stop) {
    if (text.empty()) fail("--stop: the text is empty");
    if (models_.tokenizer == nullptr) fail("--stop needs a tokenizer, and there is none");
  }
  if (request.context_limit < 1 || request.context_limit > models_.target.max_seq_len()) {
    fail("--max-context {} is not within the model's {} positions", request.context_limit,
         models_.target.max_seq_len());
  }
}

// [snippet check-fits]
// A request must be able to finish when it is alone in the pools. This rules out deadlock.
void BatchEngine::check_fits(const BatchRequest& request) const {
  const auto prompt = std::int64_t{std::ssize(request.generation.prompt)};
  const std::int64_t text = prompt + request.generation.max_new_tokens;
  if (text > request.context_limit) {
    fail(
        "a prompt of {} tokens and {} new ones need {} positions, and there are {}: reduce "
        "--max-new-tokens or shorten the prompt",
        prompt, request.generation.max_new_tokens, text, request.context_limit);
  }
  const auto check_pool = [&](const KvPool& pool, std::int64_t tokens, std::string_view whose) {
    const KvCache* cache = pool.cache();
    if (cache == nullptr) return;
    const std::int64_t pages = (tokens + cache->page_size() - 1) / cache->page_size();
    if (pages > (pool.paged() ? pool.n_pages() : 1)) {
      fail(
          "the request caches up to {} tokens in the {}, {} pages of {}, and there {} {}: raise "
          "--{}pages or reduce --max-new-tokens",
          tokens, whose, pages, cache->page_size(), pool.paged() ? "are" : "is",
          pool.paged() ? pool.n_pages() : 1, whose == "draft" ? "draft-" : "");
    }
  };
  const MostCached most = rounds_.most_cached(request);
  if (options_.max_cached > 0 && most.by_target > options_.max_cached) {
    fail(
        "the request caches up to {} tokens, and this engine has memory for requests of {}: reduce "
        "--max-new-tokens or shorten the prompt",
        most.by_target, options_.max_cached);
  }
  check_pool(target_pool_, most.by_target, "target");
  check_pool(draft_pool_, most.by_draft, "draft");
}
// [end snippet check-fits]

}  // namespace specdec
