#pragma once
#include <span>
#include <vector>

#include "common/speculation/uncached_model.h"
#include "kernels/int_size.h"

namespace specdec {

// The cheapest language model: it counts how often each token occurs in a text (order 1), or how
// often it follows the token before it (order 2). As a draft model it shows how little a guess has
// to be worth, because next to the target it costs almost nothing.
//
// Probabilities of token x after token h. The text has N tokens, of which n(x) are x, and n(h, .)
// pairs of tokens that begin with h, of which n(h, x) are h x.
//
//   P0(x)     = 1 / token_limit
//   P1(x)     = (n(x) + mu P0(x)) / (N + mu)
//   P2(x | h) = (n(h, x) + mu P1(x)) / (n(h, .) + mu)
//
// Each order adds mu tokens with the distribution of the order below (MacKay and Peto 1995, "A
// hierarchical Dirichlet language model"). So every id below token_limit has a positive
// probability, and after a rarely seen h the model falls back on P1. Several documents are counted
// as one text, across their boundaries.
//
// A row of logits is log P1 or log P2, rounded to float32. It depends on one token of the pass, so
// the only state of a sequence is its length.
class NgramModel final : public UncachedModel {
 public:
  // The best mu of 1, 2, 4, ..., 128: with it, the bigram model of golden/draft_text.txt needs the
  // fewest bits for held-out text.
  static constexpr double kPriorTokens = 8;

  // text: the tokens to count; may be empty. Ids from token_limit on have probability 0.
  // max_sequences: how many sequences can exist at a time.
  // REQUIRES: order is 1 or 2; 0 < token_limit <= vocab_size; the text's ids are in
  // [0, token_limit); the backend outlives this object.
  NgramModel(Backend& backend, int vocab_size, int token_limit, int order,
             std::span<const TokenId> text, int max_sequences);

  using LanguageModel::forward;
  // Takes V steps per row, and one more for each distinct successor of the row's token in the text.
  // Allocates nothing.
  void forward(std::span<const Segment> batch, const Outputs& out) override;

  int vocab_size() const override { return int_size(log_unigram_); }
  Backend& backend() const override { return backend_; }

 private:
  struct Successor {
    TokenId token = 0;
    float log_prob = 0;
  };

  void count_tokens(std::span<const TokenId> text, int token_limit);
  void count_pairs(std::span<const TokenId> text);
  std::span<const float> row_after(TokenId token);

  Backend& backend_;
  int order_;
  std::vector<double> log_unigram_;  // [V] log P1
  // Order 2 only. If x never follows h in the text, log P2(x | h) = log P1(x) + log_rest_[h].
  std::vector<double> log_rest_;              // [V]
  std::vector<std::size_t> first_successor_;  // [V + 1] successors_ of h: [h] up to before [h + 1]
  std::vector<Successor> successors_;         // [distinct pairs of the text]
  std::vector<float> row_;                    // [V]
};

}  // namespace specdec
