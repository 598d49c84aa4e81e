#pragma once
#include <span>

#include "common/speculation/drafter.h"

namespace specdec {

// Guesses at random: every id below token_limit is as likely as any other, whatever the context and
// the options are. The worst drafter that is still correct, to show what speculation costs when
// nothing is accepted, and that it changes no output.
//
// Temperature 0: the token is chosen by uniform(0, position, Purpose::kDraft), always the same at
// a position; it counts as certain, which is right for any way of choosing. Above: it is drawn from
// the uniform distribution, which temperature, top-k (equals stay together) and top-p need not
// touch, since acceptance goes by the distribution that was drawn from.
//
// Keeps nothing of its sequences. Allocates nothing.
class RandomDrafter final : public Drafter {
 public:
  // REQUIRES: token_limit > 0, and at most the drafts' vocabulary.
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
