// What stage 10's code does, as facts: which candidates run on and which have ended, how many steps
// a pass is good for, and what a cache keeps of a tree.
#include <tuple>
#include <utility>

#include "tests/course/probes/beam_scenes.h"
#include "tests/course/probes/facts.h"

namespace specdec::course {
namespace {

// ---- 10.1

std::string step_of(const std::string& what, int step) {
  return fmt::format("{}, step {}", what, step);
}

void takes_a_step(std::uint64_t) {
  const std::vector<Continuation> first = {{0, 5, -0.5}, {0, 0, -1}, {0, 6, -1.5}, {0, 7, -2}};
  const std::vector<Continuation> late = {{0, 5, -2}, {1, 6, -2.5}, {0, 0, -3}, {1, 7, -4}};
  const std::vector<Continuation> all_end = {{1, 0, -3}, {0, 0, -3.5}, {0, 7, -5}, {1, 4, -6}};
  const std::vector<Continuation> last = {{0, 4, -5}, {1, 0, -5.5}, {1, 3, -6}, {0, 3, -7}};
  for (const double penalty : {0.0, 1.0, 2.0, -0.5}) {
    GivenSteps search({2, penalty, EarlyStopping::kNever}, {0}, 5);
    const std::string what = fmt::format("length penalty {}", penalty);
    search.step(first, step_of(what, 1) + ", the second candidate ends");
    search.step(late, step_of(what, 2) + ", the third candidate ends");
    search.step(all_end, step_of(what, 3) + ", the first two candidates end");
    search.step(late, step_of(what, 4) + ", none of the first two ends");
    search.step(last, step_of(what, 5) + ", the last one");
  }
}

void takes_random_steps(std::uint64_t seed) {
  std::mt19937 random(unsigned(seed) + 100);
  for (const int n_eos : {0, 1, 3}) {
    const Tokens eos_ids = Tokens{0, 1, 2, 3};
    const int width = 2 + n_eos % 2;
    GivenSteps search({width, 1, EarlyStopping::kNever},
                      Tokens(eos_ids.begin(), eos_ids.begin() + n_eos), 6);
    double best = -0.25;
    for (int step = 1; step <= 6; step++) {
      const auto candidates = random_candidates(random, std::max(2, 1 + n_eos) * width, best);
      search.step(candidates, step_of(fmt::format("{} eos ids", n_eos), step));
      best = candidates[0].score - 0.5;
    }
  }
}

void says_when_it_is_over(std::uint64_t) {
  const std::vector<Continuation> ends = {{0, 0, -1}, {0, 1, -1.5}, {0, 6, -1.75}, {0, 7, -2}};
  const std::vector<Continuation> goes_on = {{0, 5, -2}, {1, 6, -2.5}, {0, 7, -3}, {1, 7, -4}};
  const std::pair<EarlyStopping, std::string> stops[] = {
      {EarlyStopping::kFalse, "the heuristic stop"},
      {EarlyStopping::kTrue, "the early stop"},
      {EarlyStopping::kNever, "the exact stop"}};
  for (const auto& [stop, name] : stops) {
    for (const double penalty : {0.0, 2.0}) {
      GivenSteps search({2, penalty, stop}, {0, 1}, 9);
      const std::string what = fmt::format("{}, length penalty {}", name, penalty);
      search.step(goes_on, step_of(what, 1));
      search.step(ends, step_of(what, 2));
    }
  }
  GivenSteps all_ended({2, 1, EarlyStopping::kNever}, {0, 1}, 9);
  all_ended.step({{0, 0, -1}, {0, 1, -2}}, "all candidates end");
}

// ---- 10.2

void takes_steps_of_a_pass(std::uint64_t seed) {
  for (const auto& [width, draft_width, K] :
       {std::tuple{1, 1, 3}, {2, 3, 3}, {3, 3, 2}, {3, 6, 4}}) {
    TableSearch search(seed, {width, 0, EarlyStopping::kNever},
                       {.width = draft_width, .spec_length = K}, 12);
    const std::string what = fmt::format("{} beams, {} drafted, K = {}", width, draft_width, K);
    for (int round = 1; round <= 4; round++)
      search.round_fact(fmt::format("{}, round {}", what, round));
    search.found_fact(what);
  }
}

void steps_without_drafts(std::uint64_t seed) {
  TableSearch search(seed, {3, 1, EarlyStopping::kFalse}, {.width = 3, .spec_length = 0}, 8);
  for (int round = 1; round <= 8; round++)
    search.round_fact(fmt::format("no drafts, round {}", round));
  search.found_fact("no drafts");
}

// ---- 10.3

// The round of sitting 10.3, with tokens for letters: p is 20, a is 1, b is 2 and so on.
void keeps_the_survivors_of_the_book(std::uint64_t) {
  CachedTree tree({10, 11, 20});
  tree.grow({0, 0, 0, 1, 1, 3, 5, 6, 6}, {1, 2, 3, 4, 5, 4, 6, 6, 7});
  tree.feed_fact("the first round");
  tree.keep_fact({8, tree.add(5, 8)}, "after the first round");
  tree.feed_fact("the second round");
  tree.keep_fact({4}, "when one beam is left");
  tree.feed_fact("the third round");
}

void keeps_survivors_round_after_round(std::uint64_t seed) {
  std::mt19937 random(unsigned(seed) + 10);
  CachedTree tree({12, 13, 14, 15});
  for (int round = 1; round <= 4; round++) {
    Numbers leaves = tree.grow_randomly(random);
    tree.feed_fact(fmt::format("round {}", round));
    if (leaves.size() > 2) leaves.erase(leaves.begin() + int(random() % leaves.size()));
    std::ranges::reverse(leaves);
    tree.keep_fact(leaves, fmt::format("after round {}", round));
  }
}

// ---- 10.4

void drafts_levels(std::uint64_t seed) {
  for (const int n_eos : {0, 1, 2}) {
    const Tokens eos_ids = Tokens{0, 1, 2};
    DraftedLevels scene(seed, Tokens(eos_ids.begin(), eos_ids.begin() + n_eos));
    const std::string what = fmt::format("{} eos ids", n_eos);
    scene.draft_facts(1, 3, 1, what + ", one level");
    scene.draft_facts(1, 4, 3, what + ", three levels");
    scene.draft_facts(2, 5, 2, what + ", two requests");
  }
}

}  // namespace
}  // namespace specdec::course

int main(int argc, char** argv) {
  using namespace specdec::course;
  return run_probes(argc, argv,
                    {{"takes_a_step", takes_a_step},
                     {"takes_random_steps", takes_random_steps},
                     {"says_when_it_is_over", says_when_it_is_over},
                     {"takes_steps_of_a_pass", takes_steps_of_a_pass},
                     {"steps_without_drafts", steps_without_drafts},
                     {"keeps_the_survivors_of_the_book", keeps_the_survivors_of_the_book},
                     {"keeps_survivors_round_after_round", keeps_survivors_round_after_round},
                     {"drafts_levels", drafts_levels}});
}
