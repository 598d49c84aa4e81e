#pragma once
#include <span>

#include "common/speculation/drafter.h"

namespace specdec {

// Guesses at random: every id below token_limit is equally likely, whatever the context and the
// options are. This is the worst drafter that is still correct. It shows what speculation costs
// when nothing is accepted, and that speculation changes no output.
//
// At temperature 0, uniform(0, position, Purpose::kDraft) chooses the token, so a position always
// gets the same one. It counts as certain, which is right however a token was chosen. Above 0, the
// token is drawn from the uniform distribution. Temperature, top-k and top-p are not applied,
// because acceptance uses whatever distribution a token was drawn from.
//
// Sequences have no state. Allocates nothing.
class RandomDrafter final : public Drafter {
 public:
  // REQUIRES: 0 < token_limit <= V of the drafts.
  explicit RandomDrafter(int token_limit);

  SequenceId create() override { return created_++; }
  void release(SequenceId) override {}
  void draft(std::span<const DraftRequest> requests) override;
  void truncate(SequenceId, int) override {}
  int length(SequenceId) const override { return 0; }

 private:
  void add(const Sampling& sampling, int position, Drafts& drafts) const;

  int token_limit_;
  SequenceId created_ = 0;
};

}  // namespace specdec
