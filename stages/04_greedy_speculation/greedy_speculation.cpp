#include "stages/04_greedy_speculation/greedy_speculation.h"

namespace specdec {

// [snippet round]
Round greedy_round(DraftAndVerify& steps, std::vector<TokenId>& context, Generation& generation) {
  Round round = steps.draft(context, {});
  steps.verify(context);

  // [task 4.3: accept while the target agrees]
  // What the target chooses after each prefix is what it would have chosen alone, so it is emitted.
  // A draft that equals it saves a pass. The first one that differs makes the later rows useless,
  // because they follow a token that is not in the text.
  round.end = RoundEnd::kStopped;
  while (!generation.finished()) {
    const TokenId choice = steps.choice(round.accepted);
    context.push_back(choice);
    generation.push(choice);
    if (round.accepted == round.drafted) {
      round.end = RoundEnd::kAllAccepted;  // the bonus: the last row is a plain step's
      break;
    }
    if (choice != steps.drafts().token(round.accepted)) {
      round.end = RoundEnd::kRejected;  // the correction
      break;
    }
    round.accepted++;
  }
  // [end task 4.3]
  round.sum_acceptance_prob = round.accepted;  // each distribution is all on one token

  steps.roll_back(round);
  return round;
}
// [end snippet round]

}  // namespace specdec
