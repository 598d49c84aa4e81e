#include "stages/05_rejection_sampling/acceptance.h"

#include <algorithm>
#include <array>

#include "common/base/check.h"
#include "common/base/named.h"

namespace specdec {

double ratio(double target_prob, double draft_prob) {
  SPECDEC_CHECK(draft_prob > 0, "a drafted token that can be drawn, not one of probability {}",
                draft_prob);
  return std::min(1.0, target_prob / draft_prob);
}

// If all weights of a residual are 0, p and q are equal up to rounding, and the correction comes
// from p. So a token with p = 0 is never emitted.
Decision correct(const Proposal& draft, RandomSource& random, std::span<const double> weights) {
  const bool any = std::ranges::any_of(weights, [](double weight) { return weight > 0; });
  return {false,
          random.token(any ? weights : draft.target_probs, draft.position, Purpose::kResample)};
}

// [snippet residual]
// Loops over the whole vocabulary. A token that a filter removed has probability 0 in p or q, so it
// needs no special case.
std::span<const double> residual(const Proposal& draft, std::span<double> scratch) {
  // [task 5.2: what the target still owes]
  for (TokenId i = 0; i < std::ssize(scratch); i++) {
    scratch[static_cast<std::size_t>(i)] =
        std::max(0.0, draft.target_prob(i) - draft.draft_prob(i));
  }
  return scratch;
  // [end task 5.2]
}
// [end snippet residual]

// [snippet rejection]
Decision rejection(const Proposal& draft, RandomSource& random, std::span<double> scratch) {
  // [task 5.3: accept or correct]
  const TokenId x = draft.token;
  if (random.accept(ratio(draft.target_prob(x), draft.draft_prob(x)), draft.position)) {
    return {true, x};
  }
  return correct(draft, random, residual(draft, scratch));
  // [end task 5.3]
}
// [end snippet rejection]

// [snippet at-least]
Decision at_least(const Proposal& draft, RandomSource& random, std::span<double> scratch) {
  // [task 5.5: a rule without a random number]
  const TokenId x = draft.token;
  if (draft.target_prob(x) >= draft.draft_prob(x)) return {true, x};
  for (TokenId i = 0; i < std::ssize(scratch); i++) {
    const double p = draft.target_prob(i), q = draft.draft_prob(i);
    scratch[static_cast<std::size_t>(i)] = p >= q ? p - q : p;
  }
  return correct(draft, random, scratch);
  // [end task 5.5]
}
// [end snippet at-least]

// [snippet non-iterative]
Decision non_iterative(const Proposal& draft, RandomSource& random, std::span<double> /*scratch*/) {
  const TokenId x = draft.token;
  double least = 1;  // 1 / M, the smallest q/p; 0 if some token has q = 0 and p > 0
  for (TokenId i = 0; i < std::ssize(draft.target_probs); i++) {
    const double p = draft.target_prob(i);
    if (p > 0) least = std::min(least, draft.draft_prob(i) / p);
  }
  const double probability = least * draft.target_prob(x) / draft.draft_prob(x);
  if (random.accept(std::min(1.0, probability), draft.position)) return {true, x};
  return correct(draft, random, draft.target_probs);
}
// [end snippet non-iterative]

// [snippet matches]
Decision sample_and_match(const Proposal& draft, RandomSource& random,
                          std::span<double> /*scratch*/) {
  const TokenId own = random.token(draft.target_probs, draft.position, Purpose::kTarget);
  return {own == draft.token, own};
}

Decision coupled(const Proposal& draft, RandomSource& random, std::span<double> /*scratch*/) {
  const TokenId own = random.race(draft.target_probs, draft.position);
  return {own == draft.token, own};
}
// [end snippet matches]

// [snippet one-hot]
Decision one_hot(const Proposal& draft, RandomSource& random, std::span<double> scratch) {
  Proposal certain = draft;
  certain.draft_probs = {};
  return rejection(certain, random, scratch);
}
// [end snippet one-hot]

std::span<const NamedRule> acceptance_rules() {
  static constexpr std::array<NamedRule, 7> kRules = {{
      {.name = "rejection",
       .summary = "min(1, p/q), then norm(max(0, p - q))",
       .rule = rejection,
       .corrects_by_residual = true,
       .on_device = VerificationRule{}},
      {.name = "at-least",
       .summary = "where p >= q, then its own residual",
       .rule = at_least,
       .tests_by_uniform = false,
       .on_device = VerificationRule{.accept = AcceptWhen::kTargetAtLeastDraft,
                                     .correction = CorrectFrom::kSurplus}},
      {.name = "non-iterative",
       .summary = "p / (M q), then p",
       .rule = non_iterative,
       .on_device = VerificationRule{.envelope = true, .correction = CorrectFrom::kTarget}},
      {.name = "sample-and-match",
       .summary = "where the target draws the same",
       .rule = sample_and_match,
       .tests_by_uniform = false,
       .correction = Purpose::kTarget,
       .on_device = VerificationRule{.accept = AcceptWhen::kOwnTokenMatches,
                                     .correction = CorrectFrom::kOwnToken}},
      {.name = "one-hot",
       .summary = "as if the draft were certain",
       .rule = one_hot,
       .corrects_by_residual = true,
       .on_device = VerificationRule{.draft_is_certain = true}},
      {.name = "coupled",
       .summary = "where two races with shared noise have one winner",
       .rule = coupled,
       .tests_by_uniform = false,
       .races = true,
       .on_device = VerificationRule{.accept = AcceptWhen::kOwnTokenMatches,
                                     .correction = CorrectFrom::kOwnToken,
                                     .own_token = DrawBy::kRace}},
      {.name = "residual-skipped",
       .summary = "min(1, p/q), then p: lossy, a mistake to look at",
       .rule = residual_skipped,
       .lossless = false,
       .on_device = VerificationRule{.correction = CorrectFrom::kTarget}},
  }};
  return kRules;
}

const NamedRule& lenient_rule(double temperature) {
  static constexpr NamedRule kLenient = {.name = "lenient",
                                         .summary = "min(1, p / (l q)), then norm(max(0, p - q))",
                                         .rule = lenient,
                                         .corrects_by_residual = true,
                                         .lossless = false,
                                         .on_device = VerificationRule{}};
  static constexpr NamedRule kLenientArgmax = {
      .name = "lenient-argmax",
      .summary = "where p >= l max p, then the likeliest",
      .rule = lenient_argmax,
      .tests_by_uniform = false,
      .lossless = false,
      .on_device = VerificationRule{.accept = AcceptWhen::kNearOwnToken,
                                    .correction = CorrectFrom::kOwnToken,
                                    .own_token = DrawBy::kLargest}};
  return temperature == 0 ? kLenientArgmax : kLenient;
}

const NamedRule& find_acceptance_rule(std::string_view name) {
  return get_named(acceptance_rules(), name, "--acceptance", "rule");
}

}  // namespace specdec
