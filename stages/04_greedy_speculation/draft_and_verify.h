#pragma once
#include <optional>
#include <span>
#include <vector>

#include "common/language_model.h"
#include "common/run_stats.h"
#include "common/speculation/adaptive_spec_length.h"
#include "common/speculation/drafter.h"
#include "common/speculation/round.h"

namespace specdec {

// Where drafts keep the distributions that they were drawn from. kNone: nowhere, drafting is
// greedy. kBesideLogits: in the backend's memory where it chooses tokens there, otherwise on the
// host.
enum class KeepProbs { kNone, kOnHost, kBesideLogits };

// The parts of a round that do not depend on how drafts are judged: draft, verify, roll back. One
// request, one sequence in the target and one in the drafter. After an Error it is of no more use.
class DraftAndVerify {
 public:
  // spec_length: K, 0 for plain decoding. context_limit: positions that the target may use; its
  // cache has room for them.
  // REQUIRES: target and drafter outlive this object; their tokens are the same.
  DraftAndVerify(LanguageModel& target, Drafter& drafter, int spec_length, int context_limit,
                 KeepProbs keep);
  ~DraftAndVerify();
  DraftAndVerify(const DraftAndVerify&) = delete;
  DraftAndVerify& operator=(const DraftAndVerify&) = delete;

  // From now on K is chosen before every round, and spec_length is the largest.
  // REQUIRES: the policy's largest K is at most that.
  void adapt(AdaptiveSpecLength policy);

  // Feeds all of the prompt but its last token, which is pending then. The drafter's own prefill is
  // lazy.
  void prefill(std::span<const TokenId> prompt);

  // Begins a round: proposes up to K tokens after the context. Allocates nothing, as all below.
  // REQUIRES: the context is what the target has cached, and the pending token.
  Round draft(std::span<const TokenId> context, const Sampling& sampling);

  // One pass of the target over the pending token and the drafts: logits(i) is what the target says
  // after the pending token and i drafts.
  void verify(std::span<const TokenId> context);

  // Ends a round: neither cache keeps a token that is not in the text, and the next K is chosen by
  // what became of this one.
  void roll_back(const Round& round);

  // Adds a round, and what all rounds so far cost, to the counters of a run.
  void count(RunStats& stats, const Round& round) const;

  LanguageModel& target() const { return target_; }
  Drafter& drafter() const { return drafter_; }
  SequenceId sequence() const { return sequence_; }                   // of the target
  SequenceId draft_sequence() const { return draft_sequence_; }       // of the drafter
  const Drafts& drafts() const { return drafts_; }                    // of the last round
  DeviceRows logits(int i) const { return logits_.rows(i, 1); }       // [1, V], 0 <= i <= drafted
  DeviceRows logits_rows(int n) const { return logits_.rows(0, n); }  // [n, V], n <= K + 1
  int spec_length() const { return spec_length_; }                    // the largest K
  const AdaptiveSpecLength* policy() const { return policy_ ? &*policy_ : nullptr; }
  int V() const { return target_.vocab_size(); }

  double draft_seconds = 0;  // so far; whoever measures may set them back
  double verify_seconds = 0;

 private:
  LanguageModel& target_;
  Drafter& drafter_;
  int spec_length_;
  std::optional<AdaptiveSpecLength> policy_;  // none: K is spec_length_ in every round
  int context_limit_;
  SequenceId sequence_;
  SequenceId draft_sequence_;
  Drafts drafts_;
  std::vector<TokenId> verified_;  // what the pass is fed: the pending token and the drafts
  LogitsBuffer logits_;            // [K + 1, V]
  bool catches_up_ = false;        // the last draft phase: more than two tokens
};

}  // namespace specdec
