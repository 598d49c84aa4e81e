#include "stages/04_greedy_speculation/greedy_speculation.h"

namespace specdec {

// [snippet round]
Round greedy_round(DraftAndVerify& steps, std::vector<TokenId>& context, Generation& generation) {
  Round round = steps.draft(context, {});
  steps.verify(context);

  // [task 4.3: accept while the target agrees]
  // After each accepted prefix, the target's choice is the one of plain decoding, so it is emitted.
  // A draft that equals the choice saves a pass. After the first draft that differs, later rows are
  // useless, because they follow a token that is not in the text.
  round.end = RoundEnd::kStopped;
  while (!generation.finished()) {
    const TokenId choice = steps.choice(round.accepted);
    context.push_back(choice);
    generation.push(choice);
    if (round.accepted == round.drafted) {
      round.end = RoundEnd::kAllAccepted;  // the choice of the last row is the bonus
      break;
    }
    if (choice != steps.drafts().token(round.accepted)) {
      round.end = RoundEnd::kRejected;  // the choice is the correction
      break;
    }
    round.accepted++;
  }
  // [end task 4.3]
  round.sum_acceptance_prob = round.accepted;  // p and q are one-hot: sum min(p, q) is 1 or 0

  steps.roll_back(round);
  return round;
}
// [end snippet round]

}  // namespace specdec
