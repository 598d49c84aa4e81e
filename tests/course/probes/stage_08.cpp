// What stage 8's code does, as facts: trees, their passes, the walk along a path, what is kept of
// it, rules that judge several drafts or a whole path, and the best shape.
#include "common/generation.h"
#include "stages/08_token_trees/best_shape.h"
#include "stages/08_token_trees/keep_path.h"
#include "stages/08_token_trees/tree_judge.h"
#include "stages/08_token_trees/tree_round.h"
#include "tests/course/probes/facts.h"
#include "tests/course/probes/judging_scenes.h"
#include "tests/course/probes/tree_scenes.h"
#include "tests/tree_steps.h"

namespace specdec::course {
namespace {

// ---- 8.1

void tree_facts(const std::vector<Tokens>& drafts, const std::string& when) {
  Drafts tree = roomy_tree(8);
  fact(fmt::format("nodes that add_trial returns, {}", when), grow(tree, drafts));
  Tokens tokens;
  Numbers parents, depths, nodes, probs;
  Probs path_probs;
  for (int node = 0; node < tree.size(); node++) {
    tokens.push_back(tree.node(node).token);
    parents.push_back(tree.node(node).parent);
    depths.push_back(tree.node(node).depth);
    path_probs.push_back(tree.node(node).draft_prob);
  }
  for (const Drafts::Trial& trial : tree.trials()) {
    nodes.push_back(trial.node);
    probs.push_back(trial.probs);
  }
  fact(fmt::format("tokens of the nodes, {}", when), tokens);
  fact(fmt::format("parents of the nodes, {}", when), parents);
  fact(fmt::format("depths of the nodes, {}", when), depths);
  fact(fmt::format("probabilities of the nodes' paths, {}", when), exact(path_probs));
  fact(fmt::format("nodes of all trials, in order, {}", when), nodes);
  fact(fmt::format("distributions of all trials, in order, {}", when), probs);
  Numbers counts, after_root;
  for (int node = Drafts::kRoot; node < tree.size(); node++) {
    counts.push_back(static_cast<int>(std::ssize(tree.trials(node))));
  }
  for (const Drafts::Trial& trial : tree.trials(Drafts::kRoot)) {
    after_root.push_back(trial.node);
  }
  fact(fmt::format("trials after the root and after each node, {}", when), counts);
  fact(fmt::format("nodes of the trials after the root, {}", when), after_root);
}

void adds_trials(std::uint64_t seed) {
  tree_facts({{3, 1}}, "one draft");
  tree_facts({{3, 1}, {3, 1}}, "two equal drafts");
  tree_facts(drafts_of_the_book(), "the drafts of sitting 8.1");
  tree_facts(random_drafts(seed, 6, 4, 3), "six random drafts of three tokens");
}

void refuses_scattered_trials(std::uint64_t) {
  const auto add = [](const std::vector<int>& parents) {
    Drafts tree = roomy_tree(8);
    TokenId token = 0;
    for (const int parent : parents) add_trial(tree, parent, token++, Drafts::kCertain, 0.5);
  };
  fact("trials after the root, the root and node 0", fate([&] { add({-1, -1, 0}); }));
  fact("trials after the root, node 0 and node 1", fate([&] { add({-1, -1, 0, 1}); }));
  fact("one more trial after the root, when node 0 has one", fate([&] { add({-1, -1, 0, -1}); }));
  fact("one more trial after node 0, when node 1 has one", fate([&] { add({-1, -1, 0, 1, 0}); }));
}

// ---- 8.2

// One pass over a tree behind `text` cached tokens; more: other segments of the pass.
struct TreePass {
  std::string when;
  int page_size = 0, text = 0;
  Numbers parents;
  int first = 0;         // node of the segment; the ones before it were fed already
  bool company = false;  // a sequence without a tree before it, and one after it
};

void tail_facts(const TreePass& pass) {
  TinyLlama tiny(pass.page_size);
  Llama& llama = tiny.llama;
  TailWatcher watcher;
  llama.compute_through(watcher);
  const int V = llama.vocab_size(), nodes = int(std::ssize(pass.parents));
  const Tokens other = tokens_of(7, 5, V), text = tokens_of(8, pass.text, V);
  const Tokens tokens = tokens_of(9, nodes, V), two = tokens_of(10, 2, V);
  const SequenceId before = tiny.prefilled(other), sequence = tiny.prefilled(text);
  const SequenceId after = tiny.prefilled(two);
  const std::span all(tokens);
  const std::span parents(pass.parents);
  if (pass.first > 0) {
    llama.forward(Segment{sequence, all.first(std::size_t(pass.first)), 0,
                          parents.first(std::size_t(pass.first))},
                  {});
  }
  std::vector<Segment> batch;
  if (pass.company) batch.push_back({before, two, 0});
  batch.push_back({sequence, all.subspan(std::size_t(pass.first)), 0, parents});
  if (pass.company) batch.push_back({after, two, 0});
  llama.forward(batch, {});

  Numbers positions, firsts;
  for (const TailWatcher::Row& row : watcher.rows) {
    positions.push_back(row.position);
    firsts.push_back(row.first);
  }
  fact(fmt::format("positions of the rows, {}", pass.when), positions);
  fact(fmt::format("first positions of the rows' tails, -1 without one, {}", pass.when), firsts);
  const int rows = nodes - pass.first + (pass.company ? 4 : 0);
  for (int t = 0; t < rows; t++) {
    const bool there = t < std::ssize(watcher.rows);
    fact(fmt::format("slots of the tail of row {}, {}", t, pass.when),
         there ? watcher.rows[std::size_t(t)].tail : Numbers{});
  }
}

void plans_tails(std::uint64_t seed) {
  tail_facts({"a chain", 0, 4, {-1, 0, 1}});
  tail_facts({"two children of the pending token", 0, 4, {-1, 0, 0}});
  tail_facts({"the tree of sitting 8.2", 0, 10, parents_of_the_book()});
  tail_facts({"the same on pages of 3", 3, 10, parents_of_the_book()});
  tail_facts({"the same beside sequences without a tree", 3, 10, parents_of_the_book(), 0, true});
  tail_facts({"its last 5 nodes in a second pass", 3, 10, parents_of_the_book(), 5});
  tail_facts({"a random tree", 2, 7, random_parents(seed, 12)});
}

// How many nodes have other bits than their path, fed alone.
void says_what_each_path_says(std::uint64_t seed) {
  for (const int page_size : {0, 1, 3}) {
    TinyLlama tiny(page_size);
    Llama& llama = tiny.llama;
    const Tokens text = tokens_of(seed, 60, llama.vocab_size());
    const Tokens tokens = tokens_of(seed + 1, 12, llama.vocab_size());
    const Numbers parents = random_parents(seed, 12);
    const LogitsBuffer logits(llama, 12);
    const LogitsBuffer alone(llama, 1);
    llama.forward(Segment{tiny.prefilled(text), tokens, 12, parents}, logits.rows(0, 12));
    Numbers different;
    for (int node = 0; node < 12; node++) {
      Tokens path;
      for (int at = node; at >= 0; at = parents[std::size_t(at)]) {
        path.insert(path.begin(), tokens[std::size_t(at)]);
      }
      const SequenceId sequence = tiny.prefilled(text);
      for (const TokenId& token : path) {
        llama.forward(Segment{sequence, std::span(&token, 1), 1}, alone.rows(0, 1));
      }
      if (tiny.to_host(logits.rows(node, 1)) != tiny.to_host(alone.rows(0, 1))) {
        different.push_back(node);
      }
      llama.release(sequence);
    }
    fact(fmt::format("nodes with other bits than their path alone, {}",
                     page_size == 0 ? "contiguous" : fmt::format("pages of {}", page_size)),
         different);
  }
}

// ---- 8.3

struct Walk {
  std::string when;
  std::vector<Tokens> drafts;
  Tokens choices;  // of the root's row and of each node's
  int room = 20;   // tokens until the generation ends
};

void walk_facts(const Walk& walk, bool at_once) {
  constexpr int V = 8;
  Drafts tree = roomy_tree(V);
  if (!walk.drafts.empty()) grow(tree, walk.drafts);
  Rows unused(V, [](std::span<const TokenId>) { return 0; });
  TableModel model(V, unused.row_of());
  const int rows = tree.size() + 1;
  const LogitsBuffer logits(model, rows);
  for (int row = 0; row < rows; row++) {
    std::vector<float> values(V, 0.f);
    values[std::size_t(walk.choices[std::size_t(row) % walk.choices.size()])] = 2;
    model.backend().upload(values.data(), logits.rows(row, 1).row(0), V * sizeof(float));
  }
  const GenerationRequest request{.prompt = {7, 7}, .max_new_tokens = walk.room};
  Generation generation(request, nullptr);
  Tokens context = request.prompt;
  Round round;
  GreedyTreeJudge judge(model.backend(), at_once ? 64 : 0);
  judge.judge(tree, logits.rows(0, rows), context, generation, round);
  const std::string when = at_once ? walk.when + ", all argmaxes at once" : walk.when;
  fact(fmt::format("tokens emitted, {}", when), to_tokens(generation.tokens()));
  fact(fmt::format("context afterwards, {}", when), context);
  fact(fmt::format("nodes of the path, {}", when), round.path);
  fact(fmt::format("accepted, {}", when), round.accepted);
  fact(fmt::format("trials at each tested place, {}", when), round.tested_at);
  fact(fmt::format("end of the round, {}", when), round.end == RoundEnd::kAllAccepted
                                                      ? "all accepted"
                                                  : round.end == RoundEnd::kRejected ? "rejected"
                                                                                     : "stopped");
}

void walks_the_tree(std::uint64_t seed) {
  // Nodes of the book's tree: 0 to, 1 out, 2 York, 3 the, 4 to, 5 ".", 6 and, 7 barn, 8 the.
  const auto book = drafts_of_the_book();
  std::vector<Walk> walks = {
      {"no child is right", book, {5, 3, 3, 3, 3, 3, 3, 3, 3, 3}},
      {"the first child is right, and none of its children", book, {1, 7, 1, 2, 2, 2, 2, 2, 2, 2}},
      {"a path to a leaf", book, {2, 0, 1, 0, 0, 4, 0, 0, 0, 6}},
      {"to, York, and", book, {1, 3, 0, 7, 0, 0, 0, 2, 0, 0}},
      {"no tree", {}, {6}},
      {"a chain of which two are right", {{1, 2, 3}}, {1, 2, 4, 0}},
      {"three equal drafts", {{1, 2}, {1, 2}, {1, 2}}, {1, 2, 5}},
      {"room for two tokens", book, {1, 3, 0, 7, 0, 0, 0, 2, 0, 0}, 2},
      {"room for one token, which no child has", book, {5}, 1}};
  for (std::uint64_t i = 0; i < 4; i++) {
    walks.push_back({fmt::format("random tree {}", i), random_drafts(seed + i, 5, 4, 2),
                     tokens_of(seed + 50 + i, 40, 2)});
  }
  for (const Walk& walk : walks) walk_facts(walk, false);
  for (const Walk& walk : std::span(walks).last(4)) walk_facts(walk, true);
}

// ---- 8.4

void keep_facts(const std::string& when, int start, int nodes, std::vector<int> path, int drafted) {
  Rows unused(64, [](std::span<const TokenId>) { return 0; });
  TableModel table(64, unused.row_of());
  WatchedKeep target(table);
  WatchedDrafter drafter;
  const SequenceId other = target.create(), sequence = target.create();
  Tokens text;  // the token of place i is i
  for (TokenId token = 0; token < start + 1 + nodes; token++) text.push_back(token);
  target.forward(Segment{other, text, 0}, {});
  target.forward(Segment{sequence, text, 0}, {});
  Round round;
  round.start = start;
  round.drafted = drafted;
  round.accepted = static_cast<int>(std::ssize(path));
  round.path = std::move(path);
  keep_path(round, {target, sequence, drafter, 4});
  fact(fmt::format("calls of the target's keep, each with its start, {}", when), target.starts);
  fact(fmt::format("places that the target keeps, {}", when), target.places);
  fact(fmt::format("cached places from the start on, {}", when),
       Numbers(table.text(sequence).begin() + start, table.text(sequence).end()));
  fact(fmt::format("cached tokens of another request, {}", when),
       static_cast<int>(std::ssize(table.text(other))));
  fact(fmt::format("calls of the drafter's keep, each with its sequence, {}", when),
       drafter.sequences);
  fact(fmt::format("path that the drafter keeps, {}", when), drafter.kept);
}

void keeps_one_path(std::uint64_t seed) {
  keep_facts("10 cached, the path of sitting 8.4", 10, 9, {0, 3}, 3);
  keep_facts("7 cached, path 1, 4, 6", 7, 9, {1, 4, 6}, 3);
  keep_facts("7 cached, a chain of which two are kept", 7, 4, {0, 1}, 4);
  keep_facts("7 cached, nothing is accepted", 7, 6, {}, 2);
  keep_facts("7 cached, no tree", 7, 0, {}, 0);
  const int start = 3 + static_cast<int>(9 * uniform(seed, 0, Purpose::kRace));
  Numbers path;
  for (int node = 0; node < 20; node++) {
    if (uniform(seed, node, Purpose::kAccept) < 0.3) path.push_back(node);
  }
  keep_facts("a random path", start, 20, path, 12);
}

// Rounds of a whole text: what is kept of one is what the next goes on from.
void goes_on_from_the_path(std::uint64_t seed) {
  constexpr int V = 6, kTokens = 30;
  course::Rows target_rows(V, seed, seed, 1), draft_rows(V, seed, seed + 1, 0.7);
  TableModel target(V, target_rows.row_of()), draft(V, draft_rows.row_of());
  const Numbers widths = {2, 2, 1};
  ModelTreeDrafter drafter(
      draft, [&] { return std::make_unique<Likeliest>(plan_of_widths(widths)); }, 64, V);
  DraftAndVerify steps = tree_steps(target, drafter, 3, kNoLimit);
  const GenerationRequest request{.prompt = tokens_of(seed, 4, V), .max_new_tokens = kTokens};
  Generation generation(request, nullptr);
  GreedyTreeJudge judge(target.backend());
  Tokens context = request.prompt;
  steps.prefill(context);
  Numbers accepted, cached, drafts;
  for (int i = 0; i < kTokens && !generation.finished(); i++) {
    accepted.push_back(tree_round(steps, judge, context, generation).accepted);
    cached.push_back(target.length(steps.sequence()));
    drafts.push_back(draft.length(steps.draft_sequence()));
  }
  fact("accepted, round by round", accepted);
  fact("tokens in the target's cache after each round", cached);
  fact("tokens in the draft's cache after each round", drafts);
  fact("text", to_tokens(generation.tokens()));
}

// ---- 8.7

void plan_facts(const AcceptanceByRank& acceptance, const std::string& when) {
  for (const auto& [nodes, levels] :
       {std::pair(1, 4), {2, 4}, {4, 4}, {9, 2}, {9, 4}, {20, 1}, {20, 5}}) {
    const Likeliest::Plan plan = best_plan(acceptance, nodes, levels);
    Numbers children;
    for (const auto& node : plan) children.push_back(static_cast<int>(std::ssize(node.children)));
    const std::string limits =
        fmt::format("{} nodes and {} levels at most, {}", nodes, levels, when);
    fact(fmt::format("nodes of the plan, {}", limits), static_cast<int>(std::ssize(plan)) - 1);
    fact(fmt::format("tokens accepted by the plan, {}", limits),
         exact(Probs{expected_accepted(plan, acceptance)}));
    fact(fmt::format("children of the root and of each node, {}", limits), children);
  }
}

void fills_the_table(std::uint64_t seed) {
  plan_facts({{0.71, 0.2, 0.05}}, "ranks 0.71, 0.2, 0.05");
  plan_facts({{0.43, 0.34, 0.17}}, "ranks 0.43, 0.34, 0.17");
  plan_facts({{0.61, 0.3, 0}}, "ranks 0.61, 0.3, 0");
  plan_facts({{0.55, 0.3}, {0.93, 0.02}, {0.4, 0.33, 0.2}}, "ranks that differ by level");
  AcceptanceByRank random;
  for (int level = 0; level < 3; level++) {
    Probs row = probs_of(seed, level, 5, false);
    std::ranges::sort(row, std::greater());
    row.pop_back();
    random.push_back(row);
  }
  plan_facts(random, "random ranks");
}

}  // namespace
}  // namespace specdec::course

int main(int argc, char** argv) {
  using namespace specdec::course;
  return run_probes(argc, argv,
                    {{"adds_trials", adds_trials},
                     {"refuses_scattered_trials", refuses_scattered_trials},
                     {"plans_tails", plans_tails},
                     {"says_what_each_path_says", says_what_each_path_says},
                     {"walks_the_tree", walks_the_tree},
                     {"keeps_one_path", keeps_one_path},
                     {"goes_on_from_the_path", goes_on_from_the_path},
                     {"tries_one_after_another", tries_one_after_another},
                     {"keeps_the_law_of_siblings", keeps_the_law_of_siblings},
                     {"tests_every_prefix", tests_every_prefix},
                     {"keeps_the_law_of_blocks", keeps_the_law_of_blocks},
                     {"fills_the_table", fills_the_table}});
}
