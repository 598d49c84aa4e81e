#include "common/speculation/random_drafter.h"

#include <algorithm>

#include "common/base/check.h"
#include "kernels/int_size.h"

namespace specdec {

RandomDrafter::RandomDrafter(int token_limit) : token_limit_(token_limit) {
  SPECDEC_CHECK(token_limit > 0, "at least one token, not {}", token_limit);
}

void RandomDrafter::draft(std::span<const DraftRequest> requests) {
  for (const DraftRequest& request : requests) {
    request.drafts->clear();
    for (int i = 0; i < request.spec_length; i++) {
      add(request.sampling, int_size(request.context) + i, *request.drafts);
    }
  }
}

// Adds the token at this absolute position.
void RandomDrafter::add(const Sampling& sampling, int position, Drafts& drafts) const {
  if (sampling.options.temperature == 0) {
    drafts.add_certain(static_cast<TokenId>(uniform(0, position, Purpose::kDraft) * token_limit_));
    return;
  }
  const std::span<double> probs = drafts.next_probs();
  const auto n = static_cast<std::size_t>(token_limit_);
  SPECDEC_CHECK(n <= probs.size(), "{} tokens to be in a vocabulary of {}", n, probs.size());
  std::ranges::fill(probs.first(n), 1.0 / token_limit_);
  std::ranges::fill(probs.subspan(n), 0.0);
  drafts.add_drawn(sampling.race ? sampling.random->race(probs, position)
                                 : sampling.random->token(probs, position, Purpose::kDraft));
}

}  // namespace specdec
