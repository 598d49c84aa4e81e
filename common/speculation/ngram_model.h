#pragma once
#include <limits>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "kernels/int_size.h"

namespace specdec {

// The cheapest language model there is: how often tokens came in a text (order 1), or how often
// after the token before (order 2). As a draft it shows what little a guess needs to be worth, for
// it costs nothing beside the target.
//
// Probabilities of token x after token h, of N tokens in the text, n(x) of them x, and of n(h, .)
// pairs that begin with h, n(h, x) of them h x:
//
//   P0(x)     = 1 / token_limit
//   P1(x)     = (n(x) + mu P0(x)) / (N + mu)
//   P2(x | h) = (n(h, x) + mu P1(x)) / (n(h, .) + mu)
//
// Each order adds mu tokens' worth of the order below (MacKay and Peto 1995, "A hierarchical
// Dirichlet language model"), so that every id below token_limit can come, and a rarely seen h
// falls back on P1. The text of several documents is counted as one, ends and beginnings included.
//
// A row is the logarithm of P1, or of P2, rounded to float32. It depends on one token of the pass,
// so all that is kept of a sequence is its length.
class NgramModel final : public LanguageModel {
 public:
  // Of 1, 2, 4, ..., 128, the mu under which a bigram of golden/draft_text.txt needs the fewest
  // bits for held-out text.
  static constexpr double kPriorTokens = 8;

  // text: what is counted; may be empty. Ids from token_limit on have probability 0.
  // max_sequences: how many can exist at a time.
  // REQUIRES: order is 1 or 2; 0 < token_limit <= vocab_size; the text's ids are in
  // [0, token_limit); the backend outlives this object.
  NgramModel(Backend& backend, int vocab_size, int token_limit, int order,
             std::span<const TokenId> text, int max_sequences);

  using LanguageModel::forward;
  // Costs V a row, and one step for each successor of the row's token. Allocates nothing.
  void forward(std::span<const Segment> batch, DeviceRows logits) override;

  SequenceId create() override;  // throws CacheFull when all are in use
  SequenceId fork(SequenceId sequence) override;
  void release(SequenceId sequence) override;
  int length(SequenceId sequence) const override;
  void truncate(SequenceId sequence, int length) override;
  void keep(SequenceId sequence, int start, std::span<const int> kept) override;
  bool can_extend(std::span<const Extension> extensions) const override;

  int vocab_size() const override { return int_size(log_unigram_); }
  int max_seq_len() const override { return std::numeric_limits<int>::max(); }
  Backend& backend() const override { return backend_; }

 private:
  struct Successor {
    TokenId token = 0;
    float log_prob = 0;
  };

  void count_tokens(std::span<const TokenId> text, int token_limit);
  void count_pairs(std::span<const TokenId> text);
  void check(std::span<const Segment> batch, DeviceRows logits);
  std::span<const float> row_after(TokenId token);

  Backend& backend_;
  int order_;
  std::vector<double> log_unigram_;  // [V] log P1
  // Order 2. Where token h has no successor x in the text, log P2(x | h) is log P1(x) +
  // log_rest[h].
  std::vector<double> log_rest_;              // [V]
  std::vector<std::size_t> first_successor_;  // [V + 1] of token h in successors_, the end at h + 1
  std::vector<Successor> successors_;         // [distinct pairs of the text]
  std::vector<float> row_;                    // [V]
  std::vector<Extension> extensions_;         // of one forward
  std::vector<int> lengths_;                  // [max_sequences]; kFree where there is no sequence
};

}  // namespace specdec
