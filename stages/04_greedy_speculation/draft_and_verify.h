#pragma once
#include <memory>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "common/speculation/drafter.h"
#include "common/speculation/round.h"
#include "common/speculation/spec_length_policy.h"

namespace specdec {

// The parts of a round that do not depend on how drafts are judged: draft, verify, roll back. One
// request, one sequence in the target and one in the drafter. After an Error it is of no more use.
class DraftAndVerify {
 public:
  // policy: K of each round. context_limit: positions that the target may use; its cache has room
  // for them. drafts: what is drafted goes there, with distributions where it has room for them.
  // REQUIRES: target and drafter outlive this object; their tokens are the same; drafts has room
  // for the policy's largest K.
  DraftAndVerify(LanguageModel& target, Drafter& drafter, std::unique_ptr<SpecLengthPolicy> policy,
                 int context_limit, Drafts drafts);
  // Greedy drafts, the same K in every round.
  DraftAndVerify(LanguageModel& target, Drafter& drafter, int spec_length, int context_limit);
  ~DraftAndVerify();
  DraftAndVerify(const DraftAndVerify&) = delete;
  DraftAndVerify& operator=(const DraftAndVerify&) = delete;

  // Feeds all of the prompt but its last token, which is pending then. The drafter's own prefill is
  // lazy.
  void prefill(std::span<const TokenId> prompt);

  // Begins a round: proposes up to K tokens after the context. Allocates nothing, as all below.
  // REQUIRES: the context is what the target has cached, and the pending token.
  Round draft(std::span<const TokenId> context, const Sampling& sampling);

  // One pass of the target over the pending token and the drafts: logits(i) is what the target says
  // after the pending token and i drafts.
  void verify(std::span<const TokenId> context);

  // The largest logit of row i, the lowest id among equals: what the target chooses after the
  // pending token and i drafts. The first call of a round asks about all rows, which do not depend
  // on each other. Throws Error where row i is not numbers (NaN).
  TokenId choice(int i);

  // Ends a round: neither cache keeps a token that is not in the text, and the policy learns what
  // became of the drafts.
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
  std::vector<TokenId> verified_;  // what the pass is fed: the pending token and the drafts
  LogitsBuffer logits_;            // [K + 1, V]
  std::vector<TokenId> choices_;   // of the rows, once they were asked about
};

}  // namespace specdec
