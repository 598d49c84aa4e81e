#pragma once
#include <memory>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "common/speculation/drafter.h"
#include "common/speculation/round.h"
#include "common/speculation/spec_length_policy.h"

namespace specdec {

// The parts of a round that do not depend on the acceptance rule: draft, verify, roll back. Serves
// one request, with one sequence in the target and one in the drafter. Unusable after an Error.
class DraftAndVerify {
 public:
  // policy: chooses K of each round. context_limit: the positions of the target that the request
  // may use. drafts: the buffer for a round's drafts and their distributions. REQUIRES: target and
  // drafter outlive this object and have the same tokens; the target's cache has room for
  // context_limit tokens; drafts has room for the policy's largest K.
  DraftAndVerify(LanguageModel& target, Drafter& drafter, std::unique_ptr<SpecLengthPolicy> policy,
                 int context_limit, Drafts drafts);
  // For greedy drafts, with the same K in every round.
  DraftAndVerify(LanguageModel& target, Drafter& drafter, int spec_length, int context_limit);
  ~DraftAndVerify();
  DraftAndVerify(const DraftAndVerify&) = delete;
  DraftAndVerify& operator=(const DraftAndVerify&) = delete;

  // Feeds the target all tokens of the prompt but the last, which becomes the pending token. The
  // drafter's prefill happens in its first round.
  void prefill(std::span<const TokenId> prompt);

  // Begins a round: drafts up to K tokens after the context. Like all functions below, it allocates
  // nothing. REQUIRES: the context is the target's cached tokens and the pending token.
  Round draft(std::span<const TokenId> context, const Sampling& sampling);

  // Runs one pass of the target over the pending token and the drafts. After it, logits(i) are the
  // target's logits after the pending token and i drafts.
  void verify(std::span<const TokenId> context);

  // The target's greedy choice after the pending token and i drafts: the largest logit of row i,
  // the lowest id among equals. The first call of a round takes the argmax of all rows at once.
  // Throws BadLogits if row i contains NaN.
  TokenId choice(int i);

  // Ends a round: removes rejected drafts from both caches, and tells the policy how many drafts
  // were accepted.
  void roll_back(const Round& round);

  LanguageModel& target() const { return target_; }
  Drafter& drafter() const { return drafter_; }
  SequenceId sequence() const { return sequence_; }                   // of the target
  SequenceId draft_sequence() const { return draft_sequence_; }       // of the drafter
  const Drafts& drafts() const { return drafts_; }                    // of the last round
  DeviceRows logits(int i) const { return logits_.rows(i, 1); }       // [1, V], 0 <= i <= drafted
  DeviceRows logits_rows(int n) const { return logits_.rows(0, n); }  // [n, V], n <= K + 1
  SpecLengthPolicy& policy() const { return *policy_; }
  int spec_length() const { return policy_->largest(); }
  int V() const { return target_.vocab_size(); }

 private:
  LanguageModel& target_;
  Drafter& drafter_;
  std::unique_ptr<SpecLengthPolicy> policy_;
  int context_limit_;
  SequenceId sequence_;
  SequenceId draft_sequence_;
  Drafts drafts_;
  std::vector<TokenId> verified_;  // the tokens that the pass is fed: pending token and drafts
  LogitsBuffer logits_;            // [K + 1, V]
  std::vector<TokenId> choices_;   // [rows] argmax of each row; empty before the first choice()
};

}  // namespace specdec
