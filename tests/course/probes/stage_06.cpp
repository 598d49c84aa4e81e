// What stage 6's code does, as facts: the rows of a ragged pass, drafting and judging for many,
// admission, plans, preemption, settled rounds, prefixes, and whole runs of an engine.
#include "tests/course/probes/cancel_scenes.h"
#include "tests/course/probes/delivery_scenes.h"
#include "tests/course/probes/engine_scenes.h"
#include "tests/course/probes/facts.h"
#include "tests/course/probes/prefix_scenes.h"
#include "tests/scripted_drafter.h"

namespace specdec::course {
namespace {

// ---- 6.1

Drafts drafts_of(const Tokens& tokens) {
  Drafts drafts(static_cast<int>(tokens.size()), 0);
  for (const TokenId token : tokens) drafts.add_certain(token);
  return drafts;
}

void gives_each_round_its_rows(std::uint64_t seed) {
  World world(seed, 40, 40);
  Crowd crowd(*world.backend, 5);
  RequestState& a = crowd.add_running(world.target, world.drafter, request_of(seed, 5, 9, 3));
  RequestState& b = crowd.add_running(world.target, world.drafter, request_of(seed + 1, 9, 9, 3));
  RequestState& c = crowd.add_running(world.target, world.drafter, request_of(seed + 2, 3, 9, 0));
  RequestState& d = crowd.add(request_of(seed + 3, 8, 9, 0));
  d.sequence = world.target.create();
  RaggedPass pass(world.target, 4, 12);
  const Drafts two = drafts_of(tokens_of(seed + 7, 2, kVocab)), none(0, 0);
  const Drafts four = drafts_of(tokens_of(seed + 8, 4, kVocab));
  for (int turn = 0; turn < 2; turn++) {  // the second over the same sequences, rolled back
    world.target.passes.clear();
    pass.clear();
    pass.add_round(a, two);
    pass.add_round(b, four);
    pass.add_round(c, none);
    if (turn == 0) pass.add_prefill({&d, 5});
    pass.run();
    const std::string when = turn == 0 ? "2, 4 and 0 drafts, and 5 tokens of a prompt"
                                       : "2, 4 and 0 drafts after a rollback";
    Lists fed;
    Numbers rows;
    for (const auto& segments : world.target.passes) {
      for (const auto& segment : segments) {
        fed.push_back(segment.tokens);
        rows.push_back(segment.logits_rows);
      }
    }
    fact(fmt::format("passes of the target: {}", when), std::ssize(world.target.passes));
    fact(fmt::format("tokens fed for each request: {}", when), fed);
    fact(fmt::format("rows of logits for each request: {}", when), rows);
    fact(fmt::format("rows of all rounds: {}", when), pass.round_rows());
    Numbers choices;
    for (int i = 0; i < 9; i++) choices.push_back(argmax(*world.backend, pass.logits(i, 1)));
    fact(fmt::format("what the target says in each row: {}", when), choices);
    for (RequestState* r : {&a, &b, &c}) world.target.truncate(r->sequence, r->prefill_end());
  }
}

// ---- 6.2

void drafts_for_all(std::uint64_t seed) {
  World world(seed, 60, 60);
  Crowd crowd(*world.backend, 5);
  ScriptedDrafter drafter([](std::span<const TokenId> context, int i) {
    return static_cast<TokenId>((context.size() + static_cast<std::size_t>(i)) % kVocab);
  });
  drafter.limit = 20;
  crowd.add_running(world.target, drafter, request_of(seed, 5, 9, 3));
  crowd.add_running(world.target, drafter, request_of(seed + 1, 9, 9, 0));
  BatchRequest near_its_end = request_of(seed + 2, 7, 2, 5);
  near_its_end.context_limit = 9;  // 6 cached, room for the pending token and 2 drafts
  crowd.add_running(world.target, drafter, near_its_end);
  crowd.add_running(world.target, drafter, request_of(seed + 3, 19, 9, 5));  // the draft has 2 left
  BatchedRounds rounds(world.target, drafter, {}, 4, 5);
  const auto batch = crowd.all();
  rounds.draft(batch);
  Lists asked;
  for (const auto& call : drafter.calls) {
    asked.push_back({call.sequence, call.context_length, call.spec_length});
  }
  fact("what the drafter is asked: sequence, length of the context, K", asked);
  Numbers starts, drafted;
  for (const RequestState* r : batch) {
    starts.push_back(r->round.start);
    drafted.push_back(r->round.drafted);
  }
  fact("start of each round", starts);
  fact("drafted in each round: K = 3, 0, 5 with room for 2, 5 with 2 left in the draft", drafted);
  rounds.undo_draft(batch);
  const std::vector<RequestState*> fewer = {batch[1], batch[2]};
  drafter.calls.clear();
  rounds.draft(fewer);
  fact("drafted in each round: K = 0, and 5 with room for 2, in a batch of two",
       Numbers{fewer[0]->round.drafted, fewer[1]->round.drafted});
  fact("requests that the drafter is asked about in a batch of two", std::ssize(drafter.calls));
}

// What cannot be drafted fails the request that it belongs to.
void fails_whose_draft_has_no_logits(std::uint64_t seed) {
  World world(seed, 40, 40);
  Crowd crowd(*world.backend, 4);
  for (int i = 0; i < 3; i++) {
    BatchRequest request = request_of(seed + std::uint64_t(i), 5, 9, 3);
    if (i == 1) request.generation.prompt[0] = World::kBroken;
    crowd.add_running(world.target, world.drafter, request);
  }
  world.draft_is_broken = true;
  BatchedRounds rounds(world.target, world.drafter, {}, 4, 4);
  rounds.draft(crowd.all());
  Numbers failed;
  for (const RequestState* r : crowd.all()) failed.push_back(r->failure.has_value());
  fact("requests that have failed where the second one's draft has no logits", failed);
}

// ---- 6.3

void judges_each_by_its_own_rows(std::uint64_t seed) {
  World world(seed, 60, 60);
  Crowd crowd(*world.backend, 4);
  const SamplingOptions sampled{.temperature = 0.9};
  crowd.add_running(world.target, world.drafter, request_of(seed, 6, 20, 4));
  crowd.add_running(world.target, world.drafter, request_of(seed + 1, 3, 20, 0));
  crowd.add_running(world.target, world.drafter, request_of(seed + 2, 8, 20, 2, sampled));
  crowd.add_running(world.target, world.drafter, request_of(seed + 3, 5, 3, 4));
  Numbers rows;  // of each request
  const auto judge = [&](std::span<const RoundToJudge> judged) {
    rows.clear();
    for (const RoundToJudge& round : judged) rows.push_back(round.logits.rows);
    judge_each(judged);
  };
  BatchedRounds rounds(world.target, world.drafter, {.judge = judge}, 4, 4);
  for (int turn = 0; turn < 3; turn++) {
    std::vector<RequestState*> batch;
    for (RequestState* r : crowd.all()) {
      if (!r->generation.finished() && !r->failure) batch.push_back(r);
    }
    rounds.draft(batch);
    if (turn == 1) batch[0]->failure = "as if its drafts had failed";
    rounds.verify(batch, {});
    rounds.judge(batch);
    for (RequestState* r : batch) {
      if (!r->failure && !r->generation.finished()) rounds.roll_back(*r);
    }
    const std::string when = fmt::format("round {}{}", turn + 1,
                                         turn == 0   ? ""
                                         : turn == 1 ? ", the first request has failed"
                                                     : ", without the first request");
    fact(fmt::format("rows of logits of each request that is judged in {}", when), rows);
    Lists tokens;
    Numbers accepted;
    for (const RequestState* r : crowd.all()) {
      tokens.push_back(to_tokens(r->generation.tokens()));
      accepted.push_back(r->round.accepted);
    }
    fact(fmt::format("tokens of each request after {}", when), tokens);
    fact(fmt::format("drafts accepted of each request in {}", when), accepted);
  }
  Numbers failed;
  for (const RequestState* r : crowd.all()) failed.push_back(r->failure.has_value());
  fact("requests that have failed", failed);
}

// ---- 6.4 to 6.6

void admits_whoever_fits(std::uint64_t seed) {
  struct Case {
    std::string name;
    int pages, draft_pages, max_batch;
    int prefill_chunk = 16;
  };
  const Case cases[] = {{"there is room for all", 40, 40, 8},
                        {"3 run at a time", 40, 40, 3},
                        {"the target has 13 pages", 13, 40, 8},
                        {"the target has 6 pages", 6, 40, 8},
                        {"the draft has 9 pages", 40, 9, 8},
                        {"the target has 9 pages and chunks are of 2", 9, 40, 8, 2}};
  for (const Case& c : cases) {
    Floor floor(seed, c.pages, c.draft_pages, {c.max_batch, 64, c.prefill_chunk});
    const int prompts[] = {9, 6, 21, 2};
    for (int i = 0; i < 4; i++)
      floor.enqueue(request_of(seed + std::uint64_t(i), prompts[i], 9, 4));
    const StepPlan& plan = floor.scheduler.plan();
    fact(fmt::format("admitted of prompts of 9, 6, 21, 2 tokens where {}", c.name), plan.admitted);
    fact(fmt::format("waiting where {}", c.name), ids_of(floor.scheduler.waiting()));
    fact(fmt::format("sequences of the target where {}", c.name),
         std::ssize(floor.world.target_cache.sequences()));
    fact(fmt::format("sequences that the pool counts where {}", c.name),
         floor.target_pool.n_sequences());
  }
}

// A contiguous cache has a region for each sequence, and here fewer of them than may run.
void waits_for_a_region(std::uint64_t seed) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  ContiguousKvCache target_cache(*backend, {1, 1, 1}, 2, kPositions),
      draft_cache(*backend, {1, 1, 1}, 8, kPositions);
  Rows rows(kVocab, seed, seed, 1);
  PagedTableModel target(target_cache, kVocab, rows.row_of(), kPositions),
      draft(draft_cache, kVocab, rows.row_of(), kPositions);
  SamplingDrafter drafter(draft, kPositions + 1, 4);
  Crowd crowd(*backend, 4);
  KvPool target_pool(&target_cache, false, false), draft_pool(&draft_cache, false, false);
  BatchedRounds rounds(target, drafter, {}, 8, 4);
  Scheduler scheduler({8, 64, 16}, target, rounds, target_pool, draft_pool);
  for (int i = 0; i < 4; i++) scheduler.enqueue(crowd.add(request_of(seed, 5 + i, 9, 4)));
  fact("admitted where the target has 2 regions", scheduler.plan().admitted);
  fact("waiting where the target has 2 regions", ids_of(scheduler.waiting()));
  for (RequestState* r : crowd.all()) scheduler.remove(*r);
}

// The plans of some steps.
void plan_steps(Floor& floor, int steps, int accepted, const std::string& when) {
  Lists rounds, admitted, preempted;
  std::vector<std::string> prefills;
  for (int step = 0; step < steps; step++) {
    const StepPlan& plan = floor.scheduler.plan();
    rounds.push_back(ids_of(plan.rounds));
    prefills.emplace_back();
    for (const Prefill& prefill : plan.prefills) {
      prefills.back() += fmt::format("{}{} of {}", prefills.back().empty() ? "" : ", ",
                                     prefill.tokens, prefill.request->id);
    }
    admitted.emplace_back(plan.admitted.begin(), plan.admitted.end());
    preempted.emplace_back(plan.preempted.begin(), plan.preempted.end());
    floor.work(plan, accepted);
  }
  fact(fmt::format("admitted in each step, {}", when), admitted);
  fact(fmt::format("tokens of which prompts are computed in each step, {}", when), prefills);
  fact(fmt::format("rounds in each step, {}", when), rounds);
  fact(fmt::format("preempted in each step, {}", when), preempted);
}

void plans_within_the_budget(std::uint64_t seed) {
  Floor floor(seed, 60, 60, {3, 15, 7});
  floor.enqueue(request_of(seed, 17, 40, 4));
  floor.enqueue(request_of(seed + 1, 3, 40, 2));
  floor.enqueue(request_of(seed + 2, 20, 40, 4));
  plan_steps(floor, 8, 1, "15 rows per step, chunks of 7");
}

// A prompt that goes on takes all rows, so the next one gets none in this step.
void plans_no_empty_chunk(std::uint64_t seed) {
  Floor floor(seed, 60, 60, {5, 27, 12});
  for (const int prompt : {3, 4, 5, 40, 40}) {
    floor.enqueue(request_of(seed + std::uint64_t(prompt), prompt, 40, 4));
  }
  for (int step = 1; step <= 4; step++) {
    const StepPlan& plan = floor.scheduler.plan();
    Numbers chunks;
    for (const Prefill& prefill : plan.prefills) chunks.push_back(prefill.tokens);
    fact(fmt::format("tokens of each prompt that is computed in step {}", step), chunks);
    floor.work(plan, 1);
  }
}

// Its K is 0 when it is admitted, so it has no sequence of the draft until it drafts.
void drafts_late(std::uint64_t seed) {
  struct Later final : SpecLengthPolicy {
    explicit Later(const int& K_) : K(K_) {}
    int largest() const override { return 4; }
    int next() const override { return K; }
    void learn(const Round&) override {}
    const int& K;
  };
  int K = 0;
  Floor floor(seed, 60, 60, {2, 20, 7});
  BatchRequest request = request_of(seed, 6, 40, 4);
  request.make_policy = [&K] { return std::make_unique<Later>(K); };
  floor.enqueue(std::move(request));
  for (int step = 1; step <= 4; step++) {
    K = step < 3 ? 0 : 4;
    const StepPlan& plan = floor.scheduler.plan();
    fact(fmt::format("sequences of the draft in step {}", step),
         std::ssize(floor.world.draft_cache.sequences()));
    floor.work(plan, 1);
  }
}

void preempts_the_youngest(std::uint64_t seed) {
  Floor floor(seed, 40, 40, {4, 64, 16});
  for (std::uint64_t i = 0; i < 4; i++) floor.enqueue(request_of(seed + i, 6, 20, 4));
  floor.work(floor.scheduler.plan(), 0);
  for (int turn = 1; turn <= 2; turn++) {
    floor.scheduler.preempt_youngest();
    const std::string when = fmt::format("with {} of 4 preempted", turn);
    fact(fmt::format("admitted {}", when), ids_of(floor.scheduler.admitted()));
    fact(fmt::format("waiting, in their order, {}", when), ids_of(floor.scheduler.waiting()));
    fact(fmt::format("sequences of the target {}", when),
         std::ssize(floor.world.target_cache.sequences()));
    fact(fmt::format("pages in use {}", when), floor.target_pool.n_used());
    const RequestState& r = *floor.crowd.all()[std::size_t(4 - turn)];
    fact(fmt::format("its phase {}", when), std::string(phase_name(r.phase)));
    fact(fmt::format("times that it was preempted {}", when), r.stats.preemptions);
  }
  fact("preempted, as the plan says", floor.scheduler.last_plan().preempted);
}

void makes_room_for_the_oldest(std::uint64_t seed) {
  Floor floor(seed, 12, 40, {3, 64, 16});
  for (std::uint64_t i = 0; i < 3; i++) floor.enqueue(request_of(seed + i, 7, 30, 4));
  plan_steps(floor, 10, 2, "12 pages for texts that grow");
}

// ---- 6.7 and the whole

void settles_each_round(std::uint64_t seed) {
  World world(seed, 80, 80);
  std::vector<Arrival> arrivals = guests(seed);
  arrivals.resize(3);
  serve(world, options_of(false), arrivals);
}

void ends_one_and_spares_the_others(std::uint64_t seed) {
  World world(seed, 80, 80);
  std::vector<Arrival> arrivals = guests(seed);
  arrivals.resize(4);
  for (TokenId token = 0; token < kVocab; token += 9) {
    arrivals[0].request.generation.eos_ids.push_back(token);
  }
  arrivals[1].request.generation.prompt[0] = World::kBroken;
  serve(world, options_of(false), arrivals);
}

void everyone_gets_their_own(std::uint64_t seed) {
  World world(seed, 80, 80);
  serve(world, options_of(false), guests(seed));
}

void survives_full_pools(std::uint64_t seed) {
  World world(seed, 8, 9);
  serve(world, options_of(false), guests(seed));
}

// ---- 6.8

void shares_prefixes_in_an_engine(std::uint64_t seed) {
  World world(seed, 80, 80);
  std::vector<Arrival> arrivals = guests(seed);
  for (std::size_t i = 2; i < arrivals.size(); i++) {  // they begin like the first one
    Tokens& prompt = arrivals[i].request.generation.prompt;
    prompt = joined({arrivals[0].request.generation.prompt.begin(),
                     arrivals[0].request.generation.prompt.begin() + 8},
                    prompt);
    arrivals[i].before_step = 3 + static_cast<int>(i);
  }
  serve(world, options_of(true), arrivals);
}

}  // namespace
}  // namespace specdec::course

int main(int argc, char** argv) {
  using namespace specdec::course;
  return run_probes(argc, argv,
                    {{"gives_each_round_its_rows", gives_each_round_its_rows},
                     {"drafts_for_all", drafts_for_all},
                     {"fails_whose_draft_has_no_logits", fails_whose_draft_has_no_logits},
                     {"judges_each_by_its_own_rows", judges_each_by_its_own_rows},
                     {"admits_whoever_fits", admits_whoever_fits},
                     {"waits_for_a_region", waits_for_a_region},
                     {"plans_within_the_budget", plans_within_the_budget},
                     {"plans_no_empty_chunk", plans_no_empty_chunk},
                     {"drafts_late", drafts_late},
                     {"preempts_the_youngest", preempts_the_youngest},
                     {"makes_room_for_the_oldest", makes_room_for_the_oldest},
                     {"settles_each_round", settles_each_round},
                     {"ends_one_and_spares_the_others", ends_one_and_spares_the_others},
                     {"everyone_gets_their_own", everyone_gets_their_own},
                     {"survives_full_pools", survives_full_pools},
                     {"finds_the_longest_prefix", finds_the_longest_prefix},
                     {"shares_prefixes_in_an_engine", shares_prefixes_in_an_engine},
                     {"tells_what_is_new", tells_what_is_new},
                     {"cancels_in_every_phase", cancels_in_every_phase},
                     {"cancels_during_a_delivery", cancels_during_a_delivery}});
}
