// Facts about stage 0: the residual, a round whose random source is scripted, and the laws.
#include <random>

#include <fmt/format.h>

#include "stages/00_toy_speculation/enumeration.h"
#include "tests/course/probes/facts.h"

namespace specdec::toy {
namespace {

using course::fact;
using course::floats;

class Scene {
 public:
  explicit Scene(std::uint64_t seed) : generator_(seed) {}

  int below(int bound) { return static_cast<int>(generator_() % static_cast<unsigned>(bound)); }

  // In tenths, so that people can follow with a pencil.
  Probs probs(int size) {
    Probs probs(static_cast<std::size_t>(size));
    for (int tenth = 1; tenth <= 10; tenth++) probs[static_cast<std::size_t>(below(size))]++;
    for (double& prob : probs) prob /= 10;
    return probs;
  }

  // All rows differ, so each can be told from the others.
  Tables tables(int size) {
    for (;;) {
      Tables tables;
      for (int i = 0; i < size; i++) tables.target_probs.push_back(probs(size));
      for (int i = 0; i < size; i++) tables.draft_probs.push_back(probs(size));
      std::vector<Probs> rows = tables.target_probs;
      rows.insert(rows.end(), tables.draft_probs.begin(), tables.draft_probs.end());
      std::ranges::sort(rows);
      if (std::ranges::adjacent_find(rows) == rows.end()) return tables;
    }
  }

  Text text(int length, int vocabulary) {
    Text tokens;
    for (int i = 0; i < length; i++) tokens.push_back(below(vocabulary));
    return tokens;
  }

 private:
  std::mt19937_64 generator_;
};

std::string list(const Probs& probs) { return fmt::format("{:.1f}", fmt::join(probs, " ")); }

void residual_by_hand(std::uint64_t seed) {
  Scene scene(seed);
  for (int i = 0; i < 4; i++) {
    const Probs p = scene.probs(4), q = scene.probs(4);
    fact(fmt::format("residual of p = {} and q = {}", list(p), list(q)), floats(residual(p, q)));
  }
  const Probs p = scene.probs(4);
  fact(fmt::format("residual where p and q are both {}", list(p)), floats(residual(p, p)));
}

// RandomSource that does what it was told, and tells what it was asked.
struct Script {
  struct Over {};

  TokenId token(const Probs& probs, int position, Purpose purpose) {
    const std::string draw = fmt::format("from {} for position {}", row(probs), position);
    if (purpose != Purpose::kDraft) {
      if (only_drafts) throw Over();
      last_draw = (purpose == Purpose::kTarget ? "as bonus " : "as correction ") + draw;
      return last;
    }
    draws.push_back(draw);
    if (draws.size() > drafts.size()) throw Over();
    return drafts[draws.size() - 1];
  }

  bool accept(double probability, int position) {
    if (only_drafts) throw Over();
    tests.push_back(fmt::format("{:.3f} at position {}", probability, position));
    return std::ssize(tests) <= accepted;
  }

  std::string row(const Probs& probs) const {
    for (std::size_t i = 0; i < tables.target_probs.size(); i++) {
      if (probs == tables.draft_probs[i]) return fmt::format("the draft's row {}", i);
      if (probs == tables.target_probs[i]) return fmt::format("the target's row {}", i);
    }
    return "no model's row";
  }

  Tables tables;
  Text drafts;
  int accepted = 0;
  TokenId last = 0;  // the correction or bonus
  bool only_drafts = false;
  std::vector<std::string> draws = {}, tests = {};
  std::string last_draw = {};
};

// No part of the lesson but the round: any drafts may be tested, and there is no residual.
constexpr Rule kPlainRule{.accept = [](double p, double q) { return p / 2 + q / 4; },
                          .correction = target_alone};

void drafting(std::uint64_t seed) {
  Scene scene(seed);
  for (const int spec_length : {1, 4}) {
    const Text before = scene.text(2 + scene.below(4), 4);
    Script script{.tables = scene.tables(4), .drafts = scene.text(spec_length, 4)};
    script.only_drafts = true;
    try {
      speculative_round(script.tables, before, spec_length, script, kPlainRule);
    } catch (const Script::Over&) {
    } catch (const std::exception&) {
      if (script.draws.empty()) throw;  // otherwise it is about what follows the drafts
    }
    const std::string scene_name =
        fmt::format("K = {}, text {}, drafts {}: ", spec_length, fmt::join(before, " "),
                    fmt::join(script.drafts, " "));
    for (std::size_t i = 0; i < script.draws.size(); i++) {
      fact(fmt::format("{}draft {} is drawn", scene_name, i + 1), script.draws[i]);
    }
  }
}

void testing(std::uint64_t seed) {
  Scene scene(seed);
  constexpr int kSpecLength = 3;
  for (int accepted = 0; accepted <= kSpecLength; accepted++) {
    const Text before = scene.text(2 + scene.below(4), 4);
    Script script{.tables = scene.tables(4),
                  .drafts = scene.text(kSpecLength, 4),
                  .accepted = accepted,
                  .last = scene.below(4)};
    const Round round = speculative_round(script.tables, before, kSpecLength, script, kPlainRule);
    const std::string scene_name =
        fmt::format("text {}, drafts {}, {} pass: ", fmt::join(before, " "),
                    fmt::join(script.drafts, " "), accepted);
    fact(scene_name + "drafts tested", script.tests.size());
    for (std::size_t i = 0; i < script.tests.size(); i++) {
      fact(fmt::format("{}test {} (accept probability here: p / 2 + q / 4)", scene_name, i + 1),
           script.tests[i]);
    }
    fact(scene_name + "accepted", round.accepted);
    fact(scene_name + "the token after the drafts is drawn", script.last_draw);
    fact(scene_name + "emitted", round.emitted);
  }
}

// The texts of `length` tokens below `vocabulary`, in order.
std::vector<Text> all_texts(int length, int vocabulary) {
  std::vector<Text> texts = {{}};
  for (int i = 0; i < length; i++) {
    std::vector<Text> longer;
    for (const Text& text : texts) {
      for (TokenId token = 0; token < vocabulary; token++) {
        longer.push_back(text);
        longer.back().push_back(token);
      }
    }
    texts = std::move(longer);
  }
  return texts;
}

void targets_law(std::uint64_t seed) {
  Scene scene(seed);
  const Tables tables = scene.tables(3);
  for (int length = 1; length <= 3; length++) {
    const TokenId context = scene.below(3);
    const Law law = target_law(tables, context, length);
    Probs probs;
    for (const Text& text : all_texts(length, 3)) {
      const auto found = law.find(text);
      probs.push_back(found == law.end() ? 0 : found->second);
    }
    fact(fmt::format("after token {}: probabilities of all texts of length {}", context, length),
         floats(probs));
  }
}

void every_path(std::uint64_t seed) {
  Scene scene(seed);
  const Tables tables = scene.tables(3);
  EveryPath random;
  double total = 0;
  for (int walk = 1; walk <= 30; walk++) {  // more than there are
    Text taken = {random.token(tables.target_probs[0], 0, Purpose::kDraft)};
    taken.push_back(random.accept(0.25, 0) ? 1 : 0);
    if (taken.back() == 0) {
      taken.push_back(random.token(tables.target_probs[static_cast<std::size_t>(taken[0])], 1,
                                   Purpose::kDraft));
    }
    fact(fmt::format("walk {}: options taken", walk), taken);
    total += random.probability();
    if (!random.next()) break;
  }
  fact("probability of all walks together", floats(Probs{total}));
}

void law_of_speculation(std::uint64_t seed) {
  Scene scene(seed);
  constexpr int kLength = 3;
  for (const int spec_length : {1, 2, 4}) {
    const Tables tables = scene.tables(3);
    const Law target = target_law(tables, 0, kLength);
    Law difference = speculation_law(tables, 0, spec_length, kLength);
    for (const auto& [text, probability] : target) difference[text] -= probability;
    const auto differing = std::ranges::count_if(
        difference, [](const auto& entry) { return !(std::abs(entry.second) < 1e-12); });
    fact(fmt::format("K = {}: texts of {} tokens whose probability is not the target's",
                     spec_length, kLength),
         differing);
  }
}

}  // namespace
}  // namespace specdec::toy

int main(int argc, char** argv) {
  using namespace specdec::toy;
  return specdec::course::run_probes(argc, argv,
                                     {{"residual_by_hand", residual_by_hand},
                                      {"drafting", drafting},
                                      {"testing", testing},
                                      {"targets_law", targets_law},
                                      {"every_path", every_path},
                                      {"law_of_speculation", law_of_speculation}});
}
