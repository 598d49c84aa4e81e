#include "stages/00_toy_speculation/experiments.h"

#include <fmt/format.h>

#include "stages/00_toy_speculation/example_tables.h"
#include "stages/00_toy_speculation/overlap.h"
#include "stages/00_toy_speculation/rejection_loop.h"
#include "stages/00_toy_speculation/several_drafts.h"
#include "stages/00_toy_speculation/stopping_rules.h"
#include "stages/00_toy_speculation/wrong_rules.h"

namespace specdec::toy {
namespace {

constexpr TokenId kThe = 0, kStop = 3;

constexpr std::array<std::pair<std::string_view, Drafting>, 3> kDraftings = {{
    {"independent", Drafting::kIndependent},
    {"without replacement", Drafting::kWithoutReplacement},
    {"the likeliest, no chance", Drafting::kLikeliest},
}};

const Probs& p(TokenId context = kThe) { return example_tables().target_probs[context]; }
const Probs& q(TokenId context = kThe) { return example_tables().draft_probs[context]; }

// The largest difference from p, over all rows of the tables, and 1 to `drafts` drafts.
double largest_of_all_rows(int drafts) {
  double largest = 0;
  for (const auto& [name, drafting] : kDraftings) {
    for (TokenId context = 0; context < std::ssize(kWords); ++context) {
      for (int count = 1; count <= drafts; ++count) {
        const TrialsLaw result = trials_law(p(context), q(context), drafting, count);
        largest = std::max(largest, largest_difference(result.law, law_of(p(context))));
      }
    }
  }
  return largest;
}

void print_loop(std::string_view name, double ratio) {
  constexpr int kTries = 8;  // at most
  const LoopLaw loop = loop_law(p(), q(), ratio, kTries);
  fmt::print("  {:<36} {:5.3f}  {:8.4f}  {:10.1e}\n", name, loop.mean_tries, loop.finished,
             largest_difference(loop.law, law_of(p())));
}

}  // namespace

void print_several_drafts(int drafts) {
  fmt::print("drafts for the position after {:<5}", kWords[kThe]);
  for (int count = 1; count <= drafts; ++count) fmt::print("{:9}", count);
  fmt::print("\none of them is kept\n");
  for (const auto& [name, drafting] : kDraftings) {
    fmt::print("  {:<31}", name);
    for (int count = 1; count <= drafts; ++count) {
      fmt::print("  {:.5f}", trials_law(p(), q(), drafting, count).accepted);
    }
    fmt::print("\n");
  }
  fmt::print("all rows of the tables: largest difference {:.1e}\n", largest_of_all_rows(drafts));
  fmt::print("\n{:<40}      kept  difference\n", fmt::format("{} drafts, WRONG", drafts));
  for (const WrongTrials& wrong : kWrongTrials) {
    const TrialsLaw result = trials_law(p(), q(), wrong.drafting, drafts, wrong.arrange);
    fmt::print("  {:<40}{:8.5f}  {:10.4f}\n", wrong.name, result.accepted,
               largest_difference(result.law, law_of(p())));
  }
  const double ratio = largest_ratio(p(), q());
  fmt::print("\na loop of at most 8 tries, M = {:.3f}     tries  finished  difference\n", ratio);
  print_loop("accepted if u < p / (M q)", ratio);
  print_loop("WRONG accepted if u < min(1, p / q)", 1);
}

void print_stopping_rules() {
  constexpr int kSpecLength = 3, kLength = 3;  // drafts per round, and tokens of the texts
  const Law target = target_law(example_tables(), kStop, kLength);
  fmt::print("when the drafting stops, K = {:<29} drafted  accepted  difference\n", kSpecLength);
  for (const StoppingRule& rule : kStoppingRules) {
    const StoppingLaw result = stopping_law(rule, example_tables(), kStop, kSpecLength, kLength);
    fmt::print("  {:<52} {:8.3f}  {:8.3f}  {:10.1e}\n", rule.name, result.mean_drafted,
               result.mean_accepted, largest_difference(result.law, target));
  }
}

void print_overlap() {
  constexpr std::array<Times, 3> kTimes = {{{3, 2}, {2, 3}, {1, 4}}};
  fmt::print("T_f  T_g   f, then g   g on a guess   difference\n");
  for (const Times& times : kTimes) {
    const OverlapLaw result = overlap_law(p(), q(), times);
    fmt::print("{:3}  {:3}   {:9.2f}   {:12.2f}   {:10.1e}\n", times.f, times.g, times.f + times.g,
               result.mean_latency, largest_difference(result.law, law_of(p())));
  }
  const OverlapLaw wrong = overlap_law(p(), q(), kTimes[0], kWrongRules[0].rule);
  fmt::print("WRONG a rejected guess is replaced by a draw from f: difference {:.1e}\n",
             largest_difference(wrong.law, law_of(p())));
}

}  // namespace specdec::toy
