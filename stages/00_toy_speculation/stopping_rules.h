#pragma once
#include <algorithm>
#include <array>
#include <string_view>

#include "kernels/int_size.h"
#include "stages/00_toy_speculation/enumeration.h"

// When to stop drafting. Whether a position gets a draft may depend on the tokens before it and on
// q there, never on its own draft.
namespace specdec::toy {

// [snippet stopping-rule]
inline bool goes_on_before(const Text&, const Probs&) { return false; }
inline bool goes_on_after(TokenId, const Probs&) { return false; }

struct StoppingRule {
  std::string_view name;
  // Called before a draft is drawn. `text` ends with the drafts so far; draft_probs is q after it.
  bool (*stops_before)(const Text& text, const Probs& draft_probs) = goes_on_before;
  // Called with a draft that was drawn from draft_probs.
  bool (*stops_after)(TokenId draft, const Probs& draft_probs) = goes_on_after;
  bool drops_last = false;  // wrong: the draft after which it stops is thrown away
};

// At most `most` drafts after `text`.
template <typename Random>
Text draft_until(const StoppingRule& rule, const Tables& tables, Text text, int most,
                 Random& random) {
  Text drafts;
  bool stops = false;
  while (!stops && std::ssize(drafts) < most) {
    const Probs& row = tables.draft_probs[text.back()];
    if (rule.stops_before(text, row)) break;
    text.push_back(random.token(row, int_size(text), Purpose::kDraft));
    stops = rule.stops_after(text.back(), row);
    if (!stops || !rule.drops_last) drafts.push_back(text.back());
  }
  return drafts;
}
// [end snippet stopping-rule]

// [snippet stopping-round]
// Gives a round the drafts that were drawn before it. `random` makes all other decisions.
template <typename Random>
struct Replay {
  const Text& drafts;
  int begin;  // the first draft's position
  Random& random;

  TokenId token(const Probs& probs, int position, Purpose purpose) {
    if (purpose == Purpose::kDraft) return drafts[position - begin];
    return random.token(probs, position, purpose);
  }
  bool accept(double probability, int position) { return random.accept(probability, position); }
};

// Drafts until the rule stops, then tests these drafts in an ordinary round.
template <typename Random>
Round stopping_round(const StoppingRule& rule, const Tables& tables, const Text& text, int most,
                     Random& random) {
  const Text drafts = draft_until(rule, tables, text, most, random);
  Replay<Random> replay{drafts, int_size(text), random};
  return speculative_round(tables, text, int_size(drafts), replay);
}
// [end snippet stopping-round]

inline bool after_cat(const Text& text, const Probs&) { return text.back() == 1; }
inline bool unsure_row(const Text&, const Probs& draft_probs) {
  return std::ranges::max(draft_probs) < 0.45;
}
inline bool unsure_draft(TokenId draft, const Probs& draft_probs) {
  return draft_probs[draft] < 0.15;
}

inline constexpr std::array<StoppingRule, 5> kStoppingRules = {{
    {"never: always K drafts"},
    {"the text: no draft after \"cat\"", after_cat},
    {"q: no draft where its largest entry is below 0.45", unsure_row},
    {"keep, then stop: after a draft of q < 0.15", goes_on_before, unsure_draft},
    {"WRONG drop it: a draft of q < 0.15 is thrown away", goes_on_before, unsure_draft, true},
}};

struct StoppingLaw {
  Law law;                                     // of the first tokens
  double mean_drafted = 0, mean_accepted = 0;  // in the first round
};

// Every path of the rounds that emit the first `length` tokens after `context`. The rule may look
// at the whole text, so a walk goes through all of its rounds.
inline StoppingLaw stopping_law(const StoppingRule& rule, const Tables& tables, TokenId context,
                                int most, int length) {
  StoppingLaw result;
  EveryPath random;
  do {
    Text text = {context};
    Round first;
    while (std::ssize(text) <= length) {
      const Round round = stopping_round(rule, tables, text, most, random);
      if (text.size() == 1) first = round;
      text.insert(text.end(), round.emitted.begin(), round.emitted.end());
    }
    const double probability = random.probability();
    result.law[Text(text.begin() + 1, text.begin() + 1 + length)] += probability;
    result.mean_drafted += probability * first.drafts.size();
    result.mean_accepted += probability * first.accepted;
  } while (random.next());
  return result;
}

}  // namespace specdec::toy
