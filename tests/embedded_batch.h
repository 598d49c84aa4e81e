#pragma once
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/base/mapped_file.h"
#include "common/embedded_models.h"
#include "tests/batch_fixture.h"

// Requests for the embedded pair, with texts of its kind.
namespace specdec::batch {

constexpr int kPositions = 160;

// The embedded pair, loaded once.
struct Embedded {
  LoadedModel target{"target"}, draft{"draft"};
  Tokenizer tokenizer = Tokenizer::load(golden_model("target") / "tokenizer.json");
  std::vector<TokenId> text =
      tokenizer.encode(read_text_file(embedded_draft_text()).substr(0, 20000), false);
};

inline const Embedded& embedded() {
  static const Embedded embedded;
  return embedded;
}

// So many tokens of the text, from a random place on.
inline std::vector<TokenId> excerpt(std::mt19937& random, int tokens) {
  const auto& text = embedded().text;
  const auto first = static_cast<std::ptrdiff_t>(random() % (text.size() - 100));
  return {text.begin() + first, text.begin() + first + tokens};
}

inline bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

// A piece of a text that begins and ends between characters; empty where there is none.
inline std::string piece(std::mt19937& random, const std::string& text) {
  if (text.size() < 12) return "";
  const std::size_t length = 2 + random() % 9, first = random() % (text.size() - length);
  const std::string found = text.substr(first, length);
  return std::ranges::all_of(found, is_ascii) ? found : "";
}

// Speculates with K up to this, but for one in five.
inline BatchRequest random_request(std::mt19937& random, const std::vector<TokenId>& beginning,
                                   int K) {
  BatchRequest request;
  GenerationRequest& g = request.generation;
  if (!one_in(random, 4)) g.prompt = beginning;
  const std::vector<TokenId> rest = excerpt(random, between(random, 1, 10));
  g.prompt.insert(g.prompt.end(), rest.begin(), rest.end());
  g.max_new_tokens = between(random, 6, 26);
  if (!one_in(random, 3)) g.eos_ids = embedded().target.model.config().eos_ids;
  request.speculation = random_speculation(random);
  request.seed = random();
  request.spec_length = one_in(random, 5) ? 0 : between(random, 1, K);
  request.context_limit =
      one_in(random, 4) ? static_cast<int>(g.prompt.size()) + g.max_new_tokens : kPositions;
  return request;
}

// Greedy, and goes on with an excerpt.
inline BatchRequest greedy_request(std::mt19937& random, int K) {
  BatchRequest request;
  request.generation.prompt = excerpt(random, 12);
  request.generation.max_new_tokens = 30;
  request.spec_length = K;
  request.context_limit = kPositions;
  return request;
}

// One in three gets a stop text out of what it writes without. Whether this one did.
inline bool add_stop(std::mt19937& random, BatchRequest& request, const std::string& text) {
  const std::string stop = one_in(random, 3) ? piece(random, text) : "";
  if (!stop.empty()) request.generation.stop = {"not in any text of this", stop};
  return !stop.empty();
}

// A text that begins before the third round and ends in it; empty where that is not ASCII, or where
// the rounds before have no text.
inline std::string text_across_rounds(const Outcome& outcome) {
  const int tokens = outcome.rounds.at(0).emitted() + outcome.rounds.at(1).emitted();
  const auto before = std::span(outcome.tokens).first(static_cast<std::size_t>(tokens));
  const std::size_t cut = embedded().tokenizer.decode(before).size();
  const std::string found = cut < 3 ? "" : outcome.text.substr(cut - 3, 6);
  return std::ranges::all_of(found, is_ascii) ? found : "";
}

// Whether the text ends before its last round began.
inline bool ends_before_its_last_round(const Outcome& o) {
  const auto before = o.tokens.size() - static_cast<std::size_t>(o.rounds.back().emitted());
  return embedded().tokenizer.decode(std::span(o.tokens).first(before)).size() > o.text.size();
}

// With a page_size of kNoPages, stage 2's cache. With 0 pages, as many as max_batch sequences of so
// many positions need.
inline std::unique_ptr<CachedLlama> make_llama(const LlamaModel& model, int page_size, int pages,
                                               int max_batch, int positions = kPositions) {
  if (pages == 0) return std::make_unique<CachedLlama>(model, page_size, positions, max_batch);
  return std::make_unique<CachedLlama>(model, page_size, pages * page_size);
}

}  // namespace specdec::batch
