// What stage 5's code does, as facts: the distribution that judges, residuals, decisions, rounds,
// and the law of what comes out.
#include "stages/05_rejection_sampling/rejection_sampling.h"
#include "stages/05_rejection_sampling/sampling_drafter.h"
#include "stages/programs/sampling/speculation_options.h"
#include "tests/course/probes/acceptance_scenes.h"
#include "tests/course/probes/facts.h"

namespace specdec::course {
namespace {

// ---- 5.1

void judges_by_the_options(std::uint64_t seed) {
  struct Case {
    std::string name;
    SamplingOptions options;
  };
  const Case cases[] = {{"temperature 1", {.temperature = 1}},
                        {"temperature 0.5", {.temperature = 0.5}},
                        {"temperature 0", {.temperature = 0}},
                        {"top-k 3", {.temperature = 1, .top_k = 3}},
                        {"top-p 0.6", {.temperature = 1, .top_p = 0.6}},
                        {"repetition penalty 1.6", {.temperature = 1, .repetition_penalty = 1.6}}};
  constexpr int V = 8;
  OneRow scene(seed, V, 5);
  for (const Case& c : cases) {
    Witness random(seed);
    Judge judge(scene.model.backend(), random, {.sampling = c.options},
                std::make_shared<JudgingScratch>(3, V));
    judge.plain_choice(scene.logits(), scene.context);
    const std::span<const double> kept = judge.target_probs(0);
    fact(fmt::format("distribution that a token is drawn from, {}", c.name),
         exact(random.drawn_from, kClose));
    fact(fmt::format("distribution kept for row 0, {}", c.name),
         exact({kept.begin(), kept.end()}, kClose));
  }
}

void judges_with_lenience_at_temperature_0(std::uint64_t seed) {
  constexpr int V = 8;
  OneRow scene(seed, V, 5);
  Witness random(seed);
  Judge judge(scene.model.backend(), random, {.sampling = {.temperature = 0}, .lenience = 0.5},
              std::make_shared<JudgingScratch>(3, V));
  judge.plain_choice(scene.logits(), scene.context);
  const std::span<const double> kept = judge.target_probs(0);
  fact("distribution kept for row 0, temperature 0 with lenience 0.5",
       exact({kept.begin(), kept.end()}, kClose));
}

// ---- 5.2

void corrects_from_the_residual(std::uint64_t seed) {
  std::vector<Models> pairs = pairs_of(seed);
  const Probs p = probs_of(seed, 20, 5, false);
  pairs.push_back({"p and q are equal, and rounding rejected all the same", p, p, 1});
  for (const Models& pair : pairs) {
    Witness random(seed);
    random.answer = false;
    Probs scratch(pair.p.size(), 0.125);  // of an earlier token
    const Decision decision = lenient(proposal_of(pair, 7), random, scratch);
    fact(fmt::format("what a correction is drawn from, normalised: {}", pair.name),
         exact(normal(random.drawn_from)));
    fact(fmt::format("correction: {}", pair.name), decision.token);
  }
}

// ---- 5.3

void accepts_by_the_ratio(std::uint64_t seed) {
  for (int number = 0; number < 2; number++) {
    const Probs p = probs_of(seed, number, 6, number == 1),
                q = probs_of(seed, number + 5, 6, false);
    for (TokenId token = 0; token < 6; token++) {
      Witness random(seed);
      random.answer = true;
      Probs scratch(6);
      const Models pair{"", p, q, token};
      const Decision decision = rejection(proposal_of(pair, 11), random, scratch);
      const std::string when = fmt::format("draft {}: p {:.3f}, q {:.3f}", token,
                                           p[std::size_t(token)], q[std::size_t(token)]);
      fact(fmt::format("probability to accept, {}", when), exact(random.probabilities));
      fact(fmt::format("accepted, token, position asked about; {}", when),
           std::vector<int>{decision.accepted, decision.token,
                            random.asked.empty() ? -1 : random.asked[0]});
    }
  }
}

// Rounding may reject a draft although p and q are equal, which leaves no residual.
void rejects_where_nothing_is_owed(std::uint64_t seed) {
  const Probs p = probs_of(seed, 20, 5, false);
  Witness random(seed);
  random.answer = false;
  Probs scratch(p.size());
  const Decision decision = rejection(proposal_of({"", p, p, 1}, 7), random, scratch);
  fact("what a correction is drawn from where p and q are equal", exact(random.drawn_from));
  fact("correction where p and q are equal", decision.token);
}

// Decisions of a rule for many drafts, by the draws of a seed.
void replay(std::uint64_t seed, AcceptanceRule rule, const std::string& name) {
  std::vector<int> accepted, tokens;
  Witness random(seed);
  for (int position = 0; position < 40; position++) {
    const Models pair{"", probs_of(seed, position, 6, position % 2 == 1),
                      probs_of(seed, position + 50, 6, position % 3 == 1), 0};
    Models drawn = pair;
    drawn.token = Dice(seed).token(pair.q, position, Purpose::kDraft);
    Probs scratch(6);
    const Decision decision = rule(proposal_of(drawn, position), random, scratch);
    accepted.push_back(decision.accepted);
    tokens.push_back(decision.token);
  }
  fact(fmt::format("{}: which of 40 drafts are accepted", name), accepted);
  fact(fmt::format("{}: tokens that come out", name), tokens);
  fact(fmt::format("{}: positions of the draws, in order", name), random.asked);
  fact(fmt::format("{}: purposes of the draws, in order", name), random.purposes);
}

void replays_rejection(std::uint64_t seed) { replay(seed, rejection, "rejection"); }

// ---- the law of one token

// What comes out where the draft's token is drawn from q: p, if the rule is lossless.
void law_of_a_token(AcceptanceRule rule, const Models& pair, const std::string& name) {
  Probs law(pair.p.size());
  double kept = 0;
  EveryOutcome random;
  do {
    Models drawn = pair;
    if (!pair.q.empty()) drawn.token = random.token(pair.q, 7, Purpose::kDraft);
    Probs scratch(pair.p.size());
    const Decision decision = rule(proposal_of(drawn, 7), random, scratch);
    if (decision.token >= 0 && decision.token < std::ssize(law)) {
      law[static_cast<std::size_t>(decision.token)] += random.probability();
    }
    if (decision.accepted) kept += random.probability();
  } while (random.next());
  fact(fmt::format("{}: probabilities of the emitted token, {}", name, pair.name), exact(law));
  fact(fmt::format("{}: probability to keep the draft, {}", name, pair.name), exact({kept}));
  fact(fmt::format("{}: random numbers for acceptance, {}", name, pair.name), random.accepts);
}

void emits_what_the_target_would(std::uint64_t seed) {
  for (const Models& pair : pairs_of(seed)) law_of_a_token(rejection, pair, "rejection");
}

void accepts_at_least(std::uint64_t seed) {
  for (const Models& pair : pairs_of(seed)) law_of_a_token(at_least, pair, "at least");
  replay(seed, at_least, "at least");
}

// p and q are equal on the draft, or on another token; at temperature 0 both are 1 on one token.
void accepts_equal_probabilities(std::uint64_t seed) {
  const std::vector<Models> pairs = {
      {"p = q on the draft", {0.25, 0.5, 0.25}, {0.5, 0.25, 0.25}, 2},
      {"p = q = 1 on the draft", {0, 1, 0}, {0, 1, 0}, 1},
      {"p = q on token 2, and p < q on the draft", {0.25, 0.5, 0.25}, {0.5, 0.25, 0.25}, 0}};
  for (const Models& pair : pairs) {
    Witness random(seed);
    Probs scratch(pair.p.size());
    const Decision decision = at_least(proposal_of(pair, 7), random, scratch);
    fact(fmt::format("accepted: {}", pair.name), static_cast<int>(decision.accepted));
    fact(fmt::format("what a correction is drawn from: {}", pair.name),
         exact(random.drawn_from.empty() ? Probs{} : normal(random.drawn_from)));
  }
}

// ---- 5.4

// A round of the judge alone, whose drafts are the target's own draws up to `right`.
void judge_one(std::uint64_t seed, int right, int K, const SamplingOptions& options,
               const std::string& when, int max_new_tokens = 20, bool eos = false) {
  constexpr int V = 7;
  Rows rows(V, seed, seed, 1);
  TableModel model(V, rows.row_of());
  const LogitsBuffer logits(model, K + 1);
  Tokens context = tokens_of(seed, 4, V), text = context;
  SamplingScratch scratch(V);
  Probs probs(V);
  Dice dice(seed);
  Drafts drafts(K, V);
  const Probs draft_probs = probs_of(seed, 3, V, false);
  for (int i = 0; i < K; i++) {
    probabilities(rows(text), text, options, scratch, probs);
    const TokenId own = dice.token(probs, static_cast<int>(text.size()), Purpose::kTarget);
    std::ranges::copy(draft_probs, drafts.next_probs().begin());
    drafts.add_drawn(i < right ? own : (own + 1) % V);
    text.push_back(drafts.token(i));
  }
  model.forward(Segment{model.create(), text, K + 1}, logits.rows(0, K + 1));
  GenerationRequest request{.prompt = context, .max_new_tokens = max_new_tokens};
  if (eos) request.eos_ids = {drafts.token(1)};
  Generation generation(request, nullptr);
  Witness random(seed);
  Judge judge(model.backend(), random,
              {.sampling = options, .rule = &find_acceptance_rule("sample-and-match")},
              std::make_shared<JudgingScratch>(K, V));
  Round round{.start = 3, .drafted = K};
  random.context = &context;
  judge.judge(drafts, logits.rows(0, K + 1), context, generation, round);
  fact(fmt::format("draws at another position than the context's length, {}", when),
       random.misplaced);
  fact(fmt::format("tokens, {}", when), to_tokens(generation.tokens()));
  fact(fmt::format("the context afterwards, {}", when), context);
  fact(fmt::format("drafts accepted, {}", when), round.accepted);
  fact(fmt::format("why the round ended, {}", when), std::string(round_end_name(round.end)));
  fact(fmt::format("positions that were drawn for, {}", when), random.asked);
  fact(fmt::format("acceptance probability of the tested drafts, {}", when),
       exact(Probs{round.sum_acceptance_prob}, kClose));
}

void judges_a_round(std::uint64_t seed) {
  const SamplingOptions plain{.temperature = 1};
  judge_one(seed, 3, 3, plain, "3 of 3 drafts are right");
  judge_one(seed, 1, 3, plain, "1 of 3 drafts is right");
  judge_one(seed, 0, 3, plain, "no draft is right");
  judge_one(seed, 0, 0, plain, "there are no drafts");
  judge_one(seed, 3, 3, plain, "the limit comes after 2 of 3 right drafts", 2);
  judge_one(seed, 3, 3, plain, "an eos is among 3 right drafts", 20, true);
}

// The history of a penalty grows with the drafts.
void judges_by_the_whole_history(std::uint64_t seed) {
  const SamplingOptions penalty{.temperature = 0.8, .repetition_penalty = 2.5};
  for (std::uint64_t i = 0; i < 4; i++) {
    judge_one(seed + 10 * i, 4, 4, penalty, fmt::format("repetition penalty 2.5, text {}", i));
  }
}

// Rounds of a judge whose rule or options are not the plain ones, and what its draws were.
void judge_with(std::uint64_t seed, const SpeculationOptions& options, const std::string& when) {
  constexpr int V = 7, K = 3;
  Rows rows(V, seed, seed, 1);
  TableModel model(V, rows.row_of());
  const LogitsBuffer logits(model, K + 1);
  Tokens context = tokens_of(seed, 4, V);
  Drafts drafts(K, V);
  Tokens text = context;
  for (int i = 0; i < K; i++) {
    const Probs draft_probs = probs_of(seed, i, V, false);
    std::ranges::copy(draft_probs, drafts.next_probs().begin());
    drafts.add_drawn(static_cast<TokenId>((i + 1) % V));
    text.push_back(drafts.token(i));
  }
  model.forward(Segment{model.create(), text, K + 1}, logits.rows(0, K + 1));
  const GenerationRequest request{.prompt = context, .max_new_tokens = 20};
  Generation generation(request, nullptr);
  Witness random(seed);
  random.answer = true;
  Judge judge(model.backend(), random, options, std::make_shared<JudgingScratch>(K, V));
  Round round{.start = 3, .drafted = K};
  judge.judge(drafts, logits.rows(0, K + 1), context, generation, round);
  fact(fmt::format("tokens, {}", when), to_tokens(generation.tokens()));
  fact(fmt::format("probabilities to accept, {}", when), exact(random.probabilities, kClose));
  fact(fmt::format("purposes of the draws, {}", when), random.purposes);
  for (int i = 0; i < round.tested(); i++) {
    const std::span<const double> kept = judge.target_probs(i);
    fact(fmt::format("distribution kept for row {}, {}", i, when),
         exact({kept.begin(), kept.end()}, kClose));
  }
}

void keeps_every_row(std::uint64_t seed) {
  judge_with(seed, {.sampling = {.temperature = 1}}, "all drafts accepted");
}

void judges_with_lenience(std::uint64_t seed) {
  judge_with(seed, {.sampling = {.temperature = 1}, .lenience = 0.25}, "lenience 0.25");
}

// Without drafts a round is a bonus.
void draws_the_bonus_as_the_rule_does(std::uint64_t seed) {
  for (const char* rule : {"coupled", "rejection"}) {
    constexpr int V = 7;
    OneRow scene(seed, V, 4);
    const GenerationRequest request{.prompt = scene.context, .max_new_tokens = 20};
    Generation generation(request, nullptr);
    Witness random(seed);
    Judge judge(scene.model.backend(), random,
                {.sampling = {.temperature = 1}, .rule = &find_acceptance_rule(rule)},
                std::make_shared<JudgingScratch>(1, V));
    Round round{.start = 3};
    judge.judge(Drafts(1, V), scene.logits(), scene.context, generation, round);
    fact(fmt::format("bonus, --acceptance {}", rule), to_tokens(generation.tokens()));
    fact(fmt::format("purpose of the bonus' draw, --acceptance {}", rule), random.purposes);
  }
}

// ---- the law of a text

struct Scene {
  std::string name;
  int V, K, new_tokens;
  SpeculationOptions options;
};

// The probabilities of all texts, in the order of their ids; those of an unknown text count
// nowhere.
void law_of_texts(std::uint64_t seed, const Scene& scene) {
  Rows target_rows(scene.V, seed, seed, 1), draft_rows(scene.V, seed, seed + 1, 0.6);
  TableModel target(scene.V, target_rows.row_of()), draft(scene.V, draft_rows.row_of());
  SamplingDrafter drafter(draft, 32);
  std::size_t n_texts = 1;
  for (int i = 0; i < scene.new_tokens; i++) n_texts *= static_cast<std::size_t>(scene.V);
  Probs law(n_texts);
  double accepted = 0;
  const GenerationRequest request{.prompt = {0, 1}, .max_new_tokens = scene.new_tokens};
  EveryOutcome random;
  do {
    DraftAndVerify steps(target, drafter, fixed_spec_length(scene.K), kNoLimit,
                         Drafts(scene.K, target.vocab_size()));
    const auto judge = make_judge(steps, random, scene.options);
    Generation generation(request, nullptr);
    Tokens context = request.prompt;
    int of_first = 0;
    steps.prefill(context);
    for (int i = 0; i < scene.new_tokens && !generation.finished(); i++) {
      const Round round = sampled_round(steps, *judge, context, generation);
      if (i == 0) of_first = round.accepted;
    }
    std::size_t text = 0;
    for (const TokenId token : generation.tokens())
      text = text * std::size_t(scene.V) + std::size_t(token);
    if (generation.finished() && text < n_texts) law[text] += random.probability();
    accepted += of_first * random.probability();
  } while (random.next());
  fact(fmt::format("probabilities of all texts, {}", scene.name), exact(law, kClose));
  fact(fmt::format("drafts that the first round accepts on average, {}", scene.name),
       exact(Probs{accepted}, kClose));
}

void has_the_law_of_the_target(std::uint64_t seed) {
  const SamplingOptions plain{.temperature = 1};
  law_of_texts(seed, {"K = 2", 3, 2, 3, {.sampling = plain, .draft_temperature = 1}});
  law_of_texts(seed,
               {"K = 1, a hotter draft", 3, 1, 2, {.sampling = plain, .draft_temperature = 2}});
  law_of_texts(seed, {"K = 2, top-k 2 and a penalty",
                      3,
                      2,
                      3,
                      {.sampling = {.temperature = 0.8, .top_k = 2, .repetition_penalty = 1.5},
                       .draft_temperature = 0.8}});
  law_of_texts(seed,
               {"K = 2, a greedy draft", 3, 2, 3, {.sampling = plain, .draft_temperature = 0}});
}

void at_least_has_the_law_of_the_target(std::uint64_t seed) {
  const SpeculationOptions options{.sampling = {.temperature = 1},
                                   .draft_temperature = 1,
                                   .rule = &find_acceptance_rule("at-least")};
  law_of_texts(seed, {"at least, K = 2", 3, 2, 3, options});
}

}  // namespace
}  // namespace specdec::course

int main(int argc, char** argv) {
  using namespace specdec::course;
  return run_probes(
      argc, argv,
      {{"judges_by_the_options", judges_by_the_options},
       {"judges_with_lenience_at_temperature_0", judges_with_lenience_at_temperature_0},
       {"corrects_from_the_residual", corrects_from_the_residual},
       {"accepts_by_the_ratio", accepts_by_the_ratio},
       {"rejects_where_nothing_is_owed", rejects_where_nothing_is_owed},
       {"replays_rejection", replays_rejection},
       {"emits_what_the_target_would", emits_what_the_target_would},
       {"judges_a_round", judges_a_round},
       {"judges_by_the_whole_history", judges_by_the_whole_history},
       {"keeps_every_row", keeps_every_row},
       {"judges_with_lenience", judges_with_lenience},
       {"draws_the_bonus_as_the_rule_does", draws_the_bonus_as_the_rule_does},
       {"has_the_law_of_the_target", has_the_law_of_the_target},
       {"accepts_at_least", accepts_at_least},
       {"accepts_equal_probabilities", accepts_equal_probabilities},
       {"at_least_has_the_law_of_the_target", at_least_has_the_law_of_the_target}});
}
