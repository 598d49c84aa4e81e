// What stage 4's code does, as facts: drafting, rolling back, verifying, accepting, counting.
#include "common/generation.h"
#include "common/run_stats.h"
#include "common/speculation/count_round.h"
#include "stages/04_greedy_speculation/greedy_speculation.h"
#include "tests/course/probes/facts.h"
#include "tests/course/probes/greedy_scenes.h"

namespace specdec::course {
namespace {

constexpr int kMostRounds = 60;  // of any scene: who goes on has lost the way

// ---- 4.6

Tokens drafts_of(Drafter& drafter, SequenceId sequence, const Tokens& context, int K) {
  Drafts drafts(K, 0);
  const DraftRequest request{sequence, context, K, {}, &drafts};
  drafter.draft(std::span(&request, 1));
  return to_tokens(drafts.tokens());
}

void drafts_k_tokens(std::uint64_t seed) {
  Pair pair(seed, 0.5);
  const SequenceId sequence = pair.drafter.create();
  Tokens context = prompt_of(seed, 6);
  const auto draft = [&](const std::string& when, int K) {
    pair.draft.passes.clear();
    const Tokens drafts = drafts_of(pair.drafter, sequence, context, K);
    fact(fmt::format("tokens fed to the draft model {}, pass by pass", when), pair.draft.rows());
    fact(fmt::format("drafts {}", when), drafts);
    fact(fmt::format("tokens in the draft's cache {}", when), pair.drafter.length(sequence));
  };
  const Tokens right = pair.drafts_after(context, 4);
  draft("after a prompt of 6 tokens, K = 4", 4);
  context = joined(joined(context, right), Tokens{7});
  draft("after full acceptance and 7 as the bonus, K = 3", 3);
  context = joined(joined(context, pair.drafts_after(context, 1)), Tokens{9});
  pair.drafter.truncate(sequence, 12);
  draft("after one draft was kept and 9 is the correction, K = 2", 2);
  context = joined(context, Tokens{1, 2, 3, 4});
  pair.drafter.truncate(sequence, 13);
  draft("after a rejection and three plain steps, K = 1", 1);
  fact("passes that the drafter counts", pair.drafter.forwards());
}

// ---- 4.4

// Both caches after a round, whose drafts were fed by hand.
void roll_back_one(std::uint64_t seed, int drafted, int accepted, const std::string& when) {
  Pair pair(seed, 1);
  const Tokens prompt = prompt_of(seed, 8), drafts = prompt_of(seed + 1, drafted);
  DraftAndVerify steps(pair.target_table, pair.drafter, 5, kNoLimit);
  steps.prefill(prompt);
  const Tokens verified = joined(Tokens{prompt.back()}, drafts);
  pair.target_table.forward(Segment{steps.sequence(), verified, 0}, {});
  const Tokens seen = joined(prompt, drafts);
  const auto fed = drafted > 0 ? seen.size() - 1 : 5;  // of a plain step: from rounds before
  pair.draft_table.forward(Segment{steps.draft_sequence(), std::span(seen).first(fed), 0}, {});
  Round round{.start = 7, .drafted = drafted, .accepted = accepted};
  round.end = accepted == drafted ? RoundEnd::kAllAccepted : RoundEnd::kRejected;
  steps.roll_back(round);
  fact(fmt::format("target, 7 cached before a round: cached after it, if {}", when),
       pair.target_table.length(steps.sequence()));
  fact(fmt::format("draft, {} cached before a round: cached after it, if {}", drafted > 0 ? 7 : 5,
                   when),
       pair.draft_table.length(steps.draft_sequence()));
}

void rolls_back_both_caches(std::uint64_t seed) {
  for (int accepted = 0; accepted <= 5; accepted++) {
    roll_back_one(seed, 5, accepted, fmt::format("{} of 5 drafts are kept", accepted));
  }
  roll_back_one(seed, 1, 1, "1 of 1 draft is kept");
  roll_back_one(seed, 0, 0, "there are no drafts");
}

// ---- 4.1

void begins_a_round(std::uint64_t seed) {
  struct Case {
    int K, room, draft_room, proposed;
  };
  const Case cases[] = {{5, 40, 40, 9}, {3, 40, 40, 9}, {5, 16, 40, 9}, {5, 12, 40, 9},
                        {5, 11, 40, 9}, {5, 40, 12, 9}, {5, 40, 9, 9},  {5, 40, 40, 2}};
  for (const Case& c : cases) {
    Pair pair(seed, 1);
    const Tokens prompt = prompt_of(seed, 11);  // 10 will be cached, and one is pending
    ScriptedDrafter drafter(std::vector<Tokens>{prompt_of(seed + 1, c.proposed)});
    drafter.limit = c.draft_room;
    DraftAndVerify steps(pair.target, drafter, c.K, c.room);
    steps.prefill(prompt);
    const Round round = steps.draft(prompt, {});
    std::vector<int> asked;
    for (const auto& call : drafter.calls) asked.push_back(call.spec_length);
    const std::string when =
        fmt::format("10 cached, K = {}, room for {} in the target and {} in the draft{}", c.K,
                    c.room, c.draft_room, c.proposed < 9 ? ", which proposes 2" : "");
    fact(fmt::format("drafts asked for: {}", when), asked);
    fact(fmt::format("start, drafted: {}", when), std::vector<int>{round.start, round.drafted});
  }
}

// Up to 5 tokens, but `now` in the next round.
class PolicyOfNow final : public SpecLengthPolicy {
 public:
  explicit PolicyOfNow(int now) : now_(now) {}
  int largest() const override { return 5; }
  int next() const override { return now_; }
  void learn(const Round&) override {}

 private:
  int now_;
};

void takes_k_from_the_policy(std::uint64_t seed) {
  for (const int K : {2, 5, 0}) {
    Pair pair(seed, 1);
    const Tokens prompt = prompt_of(seed, 6);
    ScriptedDrafter drafter(std::vector<Tokens>{prompt_of(seed + 1, 9)});
    DraftAndVerify steps(pair.target, drafter, std::make_unique<PolicyOfNow>(K), kNoLimit,
                         Drafts(5, 0));
    steps.prefill(prompt);
    fact(fmt::format("drafted where the policy allows 5 and wants {}", K),
         steps.draft(prompt, {}).drafted);
  }
}

// Remembers how it is to sample.
class SampledDrafter final : public ScriptedDrafter {
 public:
  using ScriptedDrafter::ScriptedDrafter;
  void draft(std::span<const DraftRequest> requests) override {
    sampling = requests.front().sampling;
    ScriptedDrafter::draft(requests);
  }
  Sampling sampling;
};

void passes_the_sampling_on(std::uint64_t seed) {
  Pair pair(seed, 1);
  const Tokens prompt = prompt_of(seed, 6);
  SampledDrafter drafter(std::vector<Tokens>{{1, 2, 3}});
  DraftAndVerify steps(pair.target, drafter, 3, kNoLimit);
  Dice dice(seed);
  steps.prefill(prompt);
  steps.draft(prompt, {.options = {.temperature = 0.5, .top_k = 7}, .random = &dice, .race = true});
  const Sampling& given = drafter.sampling;
  fact("temperature of the drafter, for 0.5",
       floats(std::vector<double>{given.options.temperature}));
  fact("top-k of the drafter, for 7", given.options.top_k);
  fact("the drafter has the random source, and races",
       std::vector<int>{given.random == &dice, given.race});
}

// No draft of a round is left over in the next one.
void forgets_old_drafts(std::uint64_t seed) {
  Pair pair(seed, 1);
  const Tokens prompt = prompt_of(seed, 6);
  ScriptedDrafter drafter(std::vector<Tokens>{{1, 2, 3}, {4}});
  DraftAndVerify steps(pair.target_table, drafter, 3, 9);
  steps.prefill(prompt);
  steps.draft(prompt, {});
  fact("drafts of the first round, K = 3, room for 9", to_tokens(steps.drafts().tokens()));
  const Tokens kept = {prompt.back(), 1, 2, 3};
  pair.target_table.forward(Segment{steps.sequence(), kept, 0}, {});
  const Round round = steps.draft(joined(prompt, Tokens{1, 2, 3, 4}), {});
  fact("drafts of a round at the last position", to_tokens(steps.drafts().tokens()));
  fact("drafted in a round at the last position", round.drafted);
}

// ---- 4.2

void verifies_in_one_pass(std::uint64_t seed) {
  for (const int K : {4, 1, 0}) {
    Pair pair(seed, 1);
    const Tokens prompt = prompt_of(seed, 7), drafts = prompt_of(seed + 1, K);
    ScriptedDrafter drafter(std::vector<Tokens>{drafts});
    DraftAndVerify steps(pair.target, drafter, 4, kNoLimit);
    steps.prefill(prompt);
    steps.draft(prompt, {});
    pair.target.passes.clear();
    steps.verify(prompt);
    const std::string when = fmt::format("K = {}", K);
    fact(fmt::format("passes of the target to verify, {}", when), std::ssize(pair.target.passes));
    Tokens fed;
    int rows = 0;
    for (const auto& pass : pair.target.passes) {
      for (const auto& segment : pass) {
        fed = joined(fed, segment.tokens);
        rows += segment.logits_rows;
      }
    }
    fact(fmt::format("tokens fed to the target to verify, {}", when), fed);
    fact(fmt::format("rows of logits wanted, {}", when), rows);
    Tokens choices;
    for (int i = 0; i <= K; i++) {
      choices.push_back(argmax(pair.target.backend(), steps.logits(i)));
    }
    fact(fmt::format("what the target says in each of the rows, {}", when), choices);
    fact(fmt::format("tokens in the target's cache afterwards, {}", when),
         pair.target.length(steps.sequence()));
  }
}

void verifies_round_after_round(std::uint64_t seed) {
  Pair pair(seed, 1);
  const Tokens prompt = prompt_of(seed, 7);
  ScriptedDrafter drafter(std::vector<Tokens>{{1, 2, 3}, {4, 5}});
  DraftAndVerify steps(pair.target, drafter, 4, kNoLimit);
  steps.prefill(prompt);
  for (const char* which : {"first", "second"}) {
    steps.draft(prompt, {});
    pair.target.passes.clear();
    steps.verify(prompt);
    for (const auto& pass : pair.target.passes) {
      fact(fmt::format("tokens fed to the target in the {} round", which), pass.front().tokens);
    }
    pair.target_table.truncate(steps.sequence(), 6);  // nothing was accepted, or emitted
    drafter.truncate(steps.draft_sequence(), 6);
  }
}

// ---- 4.3 and the whole

// Stage 4's decode loop; what happened in it is told in lists, one entry a round. It ends where a
// round leaves more or less than one token pending, so that this is told, too.
void decode(DraftAndVerify& steps, const GenerationRequest& request, const std::string& when) {
  Generation generation(request, nullptr);
  Tokens context = request.prompt;
  std::vector<int> emitted, accepted, target, draft;
  std::string ends;
  steps.prefill(context);
  const auto one_is_pending = [&] {
    return std::ssize(context) == steps.target().length(steps.sequence()) + 1;
  };
  for (int i = 0; i < kMostRounds && one_is_pending() && !generation.finished(); i++) {
    const auto before = context.size();
    const Round round = greedy_round(steps, context, generation);
    emitted.push_back(static_cast<int>(context.size() - before));
    accepted.push_back(round.accepted);
    ends += fmt::format("{}{}", ends.empty() ? "" : ", ", round_end_name(round.end));
    target.push_back(steps.target().length(steps.sequence()));
    draft.push_back(steps.drafter().length(steps.draft_sequence()));
  }
  fact(fmt::format("tokens emitted in each round {}", when), emitted);
  fact(fmt::format("tokens {}", when), to_tokens(generation.tokens()));
  fact(fmt::format("drafts accepted in each round {}", when), accepted);
  fact(fmt::format("why each round ended {}", when), ends);
  fact(fmt::format("tokens in the target's cache after each round {}", when), target);
  fact(fmt::format("tokens in the draft's cache after each round {}", when), draft);
}

void decode_with_mistakes(std::uint64_t seed, int every, const GenerationRequest& request,
                          const std::string& when, int room = kNoLimit) {
  Pair pair(seed, 1, room);
  ScriptedDrafter drafter(with_mistakes(seed, every));
  DraftAndVerify steps(pair.target, drafter, 4, room);
  decode(steps, request, when);
  fact(fmt::format("passes of the target {}, one for the prompt", when),
       std::ssize(pair.target.passes));
}

// The first round alone, whose rollback may be yet to be written.
void emits_a_round(std::uint64_t seed) {
  for (const int right : {4, 2, 0}) {
    const GenerationRequest request{.prompt = prompt_of(seed, 5), .max_new_tokens = 15};
    Pair pair(seed, 1);
    Tokens drafts = text_after(seed, request.prompt, 4);
    for (std::size_t i = std::size_t(right); i < 4; i++) drafts[i] = (drafts[i] + 1) % kVocab;
    ScriptedDrafter drafter(std::vector<Tokens>{drafts});
    DraftAndVerify steps(pair.target, drafter, 4, kNoLimit);
    Generation generation(request, nullptr);
    Tokens context = request.prompt;
    steps.prefill(context);
    try {
      greedy_round(steps, context, generation);
    } catch (const std::exception& error) {
      if (!std::string_view(error.what()).starts_with("task 4.4")) throw;
    }
    const std::string when = fmt::format("if {} of 4 drafts are right", right);
    fact(fmt::format("tokens of the first round {}", when), to_tokens(generation.tokens()));
    fact(fmt::format("length of the context after it {}", when), std::ssize(context));
  }
}

void accepts_while_the_target_agrees(std::uint64_t seed) {
  const GenerationRequest request{.prompt = prompt_of(seed, 5), .max_new_tokens = 15};
  decode_with_mistakes(seed, 0, request, "if all drafts are right");
  decode_with_mistakes(seed, 1, request, "if all drafts are wrong");
  decode_with_mistakes(seed, 4, request, "if every fourth token is drafted wrong");
}

void stops_within_a_round(std::uint64_t seed) {
  GenerationRequest request{.prompt = prompt_of(seed, 5), .max_new_tokens = 12};
  decode_with_mistakes(seed, 0, request, "if the limit of 12 cuts the third round short");
  const Tokens text = text_after(seed, request.prompt, 12);
  request.eos_ids = {text[6]};
  decode_with_mistakes(seed, 0, request, "if an eos is among the accepted drafts");
  request.eos_ids = {static_cast<TokenId>((text[2] + 1) % kVocab)};
  decode_with_mistakes(seed, 4, request, "if drafts may be wrong and one of them an eos");
}

void fills_the_context(std::uint64_t seed) {
  const GenerationRequest request{.prompt = prompt_of(seed, 5), .max_new_tokens = 11};
  decode_with_mistakes(seed, 0, request, "with room for 16 tokens", 16);
  decode_with_mistakes(seed, 3, request, "with room for 16 and mistakes", 16);
}

// A draft model, not a script: what it says depends on all that is in its cache.
void keeps_the_draft_in_step(std::uint64_t seed) {
  for (const double agreement : {1.0, 0.75}) {
    Pair pair(seed, agreement);
    DraftAndVerify steps(pair.target, pair.drafter, 4, kNoLimit);
    const std::string when =
        fmt::format("if the draft agrees {:.0f} % of the time", 100 * agreement);
    decode(steps, {.prompt = prompt_of(seed, 5), .max_new_tokens = 24}, when);
    fact(fmt::format("tokens fed to the draft model {}, pass by pass", when), pair.draft.rows());
  }
}

// ---- 4.5

void counts_rounds(std::uint64_t seed) {
  std::vector<Round> rounds;
  for (int i = 0; i < 12; i++) {
    const auto below = [&](int n, TokenId index) {
      return static_cast<int>(uniform(seed, i, Purpose::kRace, index) * n);
    };
    Round round{
        .start = 20 + 3 * i, .drafted = i == 4 ? 0 : 1 + below(5, 0), .sum_acceptance_prob = 0.25};
    round.accepted = below(round.drafted + 1, 1);
    round.end = round.accepted == round.drafted ? RoundEnd::kAllAccepted : RoundEnd::kRejected;
    rounds.push_back(round);
  }
  rounds.push_back({.start = 60, .drafted = 5, .accepted = 2, .end = RoundEnd::kStopped});
  RunStats stats;
  for (const Round& round : rounds) count_round(stats, round);
  fact("rounds", stats.rounds);
  fact("target forwards", stats.target_forwards);
  fact("emitted tokens", stats.emitted);
  fact("accepted drafts", stats.accepted);
  fact("tested drafts", stats.tested);
  fact("drafted tokens", stats.drafted);
  fact("counted drafts, without those behind a stop", stats.counted);
  fact("rounds that drafted", stats.drafted_rounds);
  fact("rounds that drafted 0, 1, 2, ... tokens", stats.rounds_by_drafted);
  fact("rounds in which drafts 0, 1, 2, ... count", stats.drafted_at);
  fact("rounds that accepted more than 0, 1, 2, ... drafts", stats.accepted_at);
  fact("sum of the acceptance probabilities",
       floats(std::vector<double>{stats.sum_acceptance_prob}, 1e-6));
  fact("sum of accepted / drafted over the rounds that drafted",
       floats(std::vector<double>{stats.sum_round_acceptance}, 1e-6));
}

}  // namespace
}  // namespace specdec::course

int main(int argc, char** argv) {
  using namespace specdec::course;
  return run_probes(argc, argv,
                    {{"drafts_k_tokens", drafts_k_tokens},
                     {"rolls_back_both_caches", rolls_back_both_caches},
                     {"begins_a_round", begins_a_round},
                     {"takes_k_from_the_policy", takes_k_from_the_policy},
                     {"passes_the_sampling_on", passes_the_sampling_on},
                     {"forgets_old_drafts", forgets_old_drafts},
                     {"verifies_in_one_pass", verifies_in_one_pass},
                     {"verifies_round_after_round", verifies_round_after_round},
                     {"emits_a_round", emits_a_round},
                     {"accepts_while_the_target_agrees", accepts_while_the_target_agrees},
                     {"stops_within_a_round", stops_within_a_round},
                     {"fills_the_context", fills_the_context},
                     {"keeps_the_draft_in_step", keeps_the_draft_in_step},
                     {"counts_rounds", counts_rounds}});
}
