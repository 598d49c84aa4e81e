// Stage 0: speculative sampling on two tables, step by step, and the exhaustive check that
// the text has the target's law.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/json_value.h"
#include "kernels/int_size.h"
#include "stages/00_toy_speculation/enumeration.h"
#include "stages/00_toy_speculation/example_tables.h"
#include "stages/00_toy_speculation/experiments.h"
#include "stages/00_toy_speculation/wrong_rules.h"
#include "stages/programs/check/golden_check.h"
#include "stages/programs/run/command_line.h"
#include "stages/programs/run/options.h"
#include "stages/programs/show/report.h"

namespace specdec::toy {
namespace {

constexpr TokenId kStart = 3;  // the text before the first round is "."
constexpr int kRounds = 3;

const Tables& tables() { return example_tables(); }

struct Options {
  int spec_length = 3;
  std::uint64_t seed = 0;
  OutputFormat output = OutputFormat::kText;
  bool quiet = false;
  bool check = false;
  int drafts = 0;  // for one position; 0: the run
  bool stops = false, overlap = false;

  int law_length() const { return spec_length + 2; }  // more than any single round emits
};

std::string words(const Text& text) {
  std::vector<std::string_view> names;
  for (const TokenId token : text) names.push_back(kWords[token]);
  return fmt::format("{}", fmt::join(names, " "));
}

// The probability that a draft is kept: the mean of min(1, p / q) under q.
double kept(const Probs& target_probs, const Probs& draft_probs) {
  double sum = 0;
  for (std::size_t i = 0; i < target_probs.size(); ++i) {
    sum += std::min(target_probs[i], draft_probs[i]);
  }
  return sum;
}

void print_tables() {
  fmt::print("after   target_probs (p)         draft_probs (q)          a draft is kept\n");
  fmt::print("      {0:>6}{1:>6}{2:>6}{3:>6} {0:>6}{1:>6}{2:>6}{3:>6}   sum min(p, q)\n", kWords[0],
             kWords[1], kWords[2], kWords[3]);
  for (std::size_t context = 0; context < kWords.size(); ++context) {
    const Probs& target_probs = tables().target_probs[context];
    const Probs& draft_probs = tables().draft_probs[context];
    fmt::print("{:<6}", kWords[context]);
    for (const double prob : target_probs) fmt::print("{:6.2f}", prob);
    fmt::print(" ");
    for (const double prob : draft_probs) fmt::print("{:6.2f}", prob);
    fmt::print("   {:.2f}\n", kept(target_probs, draft_probs));
  }
}

// A round, and the text before it. With the text and the seed, all decisions can be computed again.
struct Record {
  Text before;
  Round round;
};

std::vector<Record> generate(const Options& options) {
  const Dice dice{
      [&](int position, Purpose purpose) { return uniform(options.seed, position, purpose); }};
  std::vector<Record> records;
  Text text = {kStart};
  for (int i = 0; i < kRounds; ++i) {
    records.push_back({text, speculative_round(tables(), text, options.spec_length, dice)});
    const Text& emitted = records.back().round.emitted;
    text.insert(text.end(), emitted.begin(), emitted.end());
  }
  return records;
}

Text generated(const std::vector<Record>& records) {
  Text text;
  for (const Record& record : records) {
    text.insert(text.end(), record.round.emitted.begin(), record.round.emitted.end());
  }
  return text;
}

// One draft's test, as the round saw it.
struct Verdict {
  TokenId context, token;
  double target_prob, draft_prob, probability;
  double uniform;
  bool tested, accepted;
};

std::vector<Verdict> verdicts(const Record& record, const Options& options) {
  std::vector<Verdict> verdicts;
  TokenId context = record.before.back();
  for (int i = 0; i < std::ssize(record.round.drafts); ++i) {
    const TokenId token = record.round.drafts[i];
    const int position = int_size(record.before) + i;
    const double target_prob = tables().target_probs[context][token];
    const double draft_prob = tables().draft_probs[context][token];
    verdicts.push_back({context, token, target_prob, draft_prob,
                        accept_probability(target_prob, draft_prob),
                        uniform(options.seed, position, Purpose::kAccept),
                        i <= record.round.accepted, i < record.round.accepted});
    context = token;
  }
  return verdicts;
}

void print_verdict(const Verdict& draft) {
  fmt::print("  draft {:<4} after {:<4}", kWords[draft.token], kWords[draft.context]);
  if (!draft.tested) {
    fmt::print("never tested\n");
    return;
  }
  fmt::print("p {:.2f}  q {:.2f}  min(1, p/q) {:.3f}  u {:.3f}  {}\n", draft.target_prob,
             draft.draft_prob, draft.probability, draft.uniform,
             draft.accepted ? "accepted" : "rejected");
}

void print_correction(TokenId correction, TokenId context) {
  const Probs probs = residual(tables().target_probs[context], tables().draft_probs[context]);
  std::vector<std::string> possible;
  for (std::size_t token = 0; token < probs.size(); ++token) {
    if (probs[token] > 0) possible.push_back(fmt::format("{} {:.2f}", kWords[token], probs[token]));
  }
  fmt::print("  correction {} from norm(max(0, p - q)): {}\n", kWords[correction],
             fmt::join(possible, ", "));
}

void print_round(int number, const Record& record, const Options& options) {
  fmt::print("\nround {}, text so far: {}\n", number, words(record.before));
  const Round& round = record.round;
  const std::vector<Verdict> drafts = verdicts(record, options);
  for (const Verdict& draft : drafts) print_verdict(draft);
  if (round.accepted == options.spec_length) {
    fmt::print("  bonus {} from p after {}\n", kWords[round.emitted.back()],
               kWords[drafts.back().token]);
  } else {
    print_correction(round.emitted.back(), drafts[round.accepted].context);
  }
  fmt::print("  accepted {}, emitted {}: {}\n", round.accepted, round.emitted.size(),
             words(round.emitted));
}

// How far the law of the emitted text is from the target's.
double difference(const Options& options, const Rule& rule = {}) {
  const int length = options.law_length();
  return largest_difference(speculation_law(tables(), kStart, options.spec_length, length, rule),
                            target_law(tables(), kStart, length));
}

double probability(const Law& law, const Text& text) {
  const auto found = law.find(text);
  return found == law.end() ? 0 : found->second;
}

double mean_emitted(const Options& options) {
  double mean = 0;
  for (const auto& [emitted, prob] : round_law(tables(), kStart, options.spec_length)) {
    mean += prob * emitted.size();
  }
  return mean;
}

void print_enumeration(const Options& options) {
  constexpr int kShown = 2;  // tokens
  const Law target = target_law(tables(), kStart, kShown);
  const Law speculation = speculation_law(tables(), kStart, options.spec_length, kShown);
  fmt::print("\nthe first {} tokens   target alone   speculation\n", kShown);
  for (TokenId first = 0; first < std::ssize(kWords); ++first) {
    for (TokenId second = 0; second < std::ssize(kWords); ++second) {
      const Text text = {first, second};
      fmt::print("{:<18}   {:12.9f}  {:12.9f}\n", words(text), probability(target, text),
                 probability(speculation, text));
    }
  }
  fmt::print("\nall texts of {} tokens: largest difference {:.1e}\n", options.law_length(),
             difference(options));
  for (const WrongRule& wrong : kWrongRules) {
    fmt::print("  {:<62} {:.1e}\n", wrong.name, difference(options, wrong.rule));
  }
  fmt::print("a round after {} emits {:.3f} tokens on average\n", kWords[kStart],
             mean_emitted(options));
}

Json round_json(const Record& record, const Options& options) {
  Json drafts = Json::array();
  for (const Verdict& draft : verdicts(record, options)) {
    Json entry = {{"token", draft.token},
                  {"target_prob", draft.target_prob},
                  {"draft_prob", draft.draft_prob},
                  {"tested", draft.tested}};
    if (draft.tested) {
      entry["uniform"] = draft.uniform;
      entry["accepted"] = draft.accepted;
    }
    drafts.push_back(entry);
  }
  return {{"before", record.before},
          {"drafts", drafts},
          {"accepted", record.round.accepted},
          {"emitted", record.round.emitted}};
}

// The counts of the run. Every round drafts K tokens, and nothing stops it early, so only the tests
// need counting.
RunStats stats(const std::vector<Record>& records, const Options& options) {
  const std::int64_t rounds = records.size();
  const std::size_t spec_length = options.spec_length;
  RunStats stats;
  stats.rounds = stats.target_forwards = stats.drafted_rounds = rounds;
  stats.drafted = stats.counted = rounds * options.spec_length;
  stats.emitted = std::ssize(generated(records));
  stats.rounds_by_drafted.resize(spec_length + 1);
  stats.rounds_by_drafted.back() = rounds;
  stats.drafted_at.assign(spec_length, rounds);
  stats.accepted_at.resize(spec_length);
  for (const Record& record : records) {
    const std::vector<Verdict> drafts = verdicts(record, options);
    double acceptance_prob = 0;
    for (std::size_t i = 0; i < std::min(spec_length, drafts.size()); ++i) {
      if (!drafts[i].tested) break;
      ++stats.tested;
      acceptance_prob +=
          kept(tables().target_probs[drafts[i].context], tables().draft_probs[drafts[i].context]);
      if (drafts[i].accepted) ++stats.accepted_at[i];
    }
    stats.accepted += record.round.accepted;
    stats.sum_acceptance_prob += acceptance_prob;
    stats.sum_round_acceptance += 1.0 * record.round.accepted / options.spec_length;
  }
  return stats;
}

void print_json(const std::vector<Record>& records, const Options& options) {
  Json rounds = Json::array(), wrong_rules = Json::array();
  for (const Record& record : records) rounds.push_back(round_json(record, options));
  for (const WrongRule& wrong : kWrongRules) {
    wrong_rules.push_back(
        {{"name", wrong.name}, {"largest_difference", difference(options, wrong.rule)}});
  }
  const Json result = {{"stage", stage_name(0)},
                       {"spec_length", options.spec_length},
                       {"seed", options.seed},
                       {"vocabulary", kWords},
                       {"target_probs", tables().target_probs},
                       {"draft_probs", tables().draft_probs},
                       {"rounds", rounds},
                       {"tokens", generated(records)},
                       {"text", words(generated(records))},
                       {"finish_reason", "length"},
                       {"stats", to_json(stats(records, options))},
                       {"law_length", options.law_length()},
                       {"largest_difference", difference(options)},
                       {"wrong_rules", wrong_rules},
                       {"mean_emitted", mean_emitted(options)}};
  fmt::print("{}\n", result.dump());
}

// [snippet check]
int check(const Options& options) {
  constexpr double kTolerance = 1e-12;  // sums of some thousand doubles of at most 1
  constexpr double kVisible = 1e-3;
  CheckList list;
  const double exact = difference(options);
  list.add(exact <= kTolerance,
           fmt::format("law of {} tokens equals the target's: largest difference {:.1e}",
                       options.law_length(), exact));
  for (const WrongRule& wrong : kWrongRules) {
    const double visible = difference(options, wrong.rule);
    list.add(visible >= kVisible,
             fmt::format("control that must differ, by {:.1e}: {}", visible, wrong.name));
  }
  return list.finish();
}
// [end snippet check]

void print_experiments(const Options& options) {
  if (options.drafts > 0) print_several_drafts(options.drafts);
  if (options.stops) print_stopping_rules();
  if (options.overlap) print_overlap();
}

int run(const Options& options) {
  if (options.check) return check(options);
  if (options.drafts > 0 || options.stops || options.overlap) {
    print_experiments(options);
    return kGood;
  }
  const std::vector<Record> records = generate(options);
  if (options.output == OutputFormat::kJson) {
    print_json(records, options);
  } else if (options.quiet) {
    fmt::print("{}\n", words(generated(records)));
  } else {
    print_tables();
    for (int i = 0; i < kRounds; ++i) {
      print_round(i + 1, records[i], options);
    }
    print_enumeration(options);
  }
  return kGood;
}

CommandLine command_line(Options& options) {
  return {.program = stage_name(0),
          .description =
              "Speculative sampling on two tables, and an exhaustive check that it changes no "
              "probability.",
          .options =
              {
                  {"--spec-length K", "K, the number of tokens drafted per round",
                   Integer{&options.spec_length, {1, 6}}},
                  {"--seed N", "of the random numbers", &options.seed},
                  {"--output FORMAT", "text or json", one_of(&options.output)},
                  {"--quiet", "print the text alone", &options.quiet},
                  {"--check", "check exhaustively that the law is the target's, and exit",
                   &options.check},
                  {"--drafts N",
                   "instead of the run: up to N drafts for one position, and how often one is kept",
                   Integer{&options.drafts, {1, 4}},
                   {.otherwise = "none", .excludes = {"--check", "--output", "--quiet"}}},
                  {"--stops",
                   "instead of the run: rules that say when to stop drafting, with K = 3",
                   &options.stops,
                   {.excludes = {"--check", "--output", "--quiet", "--drafts", "--spec-length"}}},
                  {"--overlap",
                   "instead of the run: a function that starts on a guess of its input",
                   &options.overlap,
                   {.excludes = {"--check", "--output", "--quiet", "--drafts", "--stops"}}},
              },
          .lacking = options_of_other_stages(0)};
}

}  // namespace
}  // namespace specdec::toy

int main(int argc, char** argv) {
  specdec::toy::Options options;
  return specdec::run_program(specdec::toy::command_line(options), argc, argv,
                              [&] { return specdec::toy::run(options); });
}
