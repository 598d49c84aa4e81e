// What trees gain over a chain by the clock: each text is decoded by both, in turns, greedily.
//
//   tree_benchmark [--threads=N] [--tokens=N] [--repeats=N] [Google Benchmark's options]
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "stages/08_token_trees/tree_steps.h"
#include "stages/programs/trees/shape_option.h"
#include "tests/benchmarks/decoding.h"

namespace specdec {
namespace {

// docs/08_token_trees/9_what_it_gains.md has the counts of these.
constexpr const char* kTarget = "134m";
constexpr const char* kDraft = "14m";
constexpr int kChain = 3;  // K of the chain, the best one here

struct Tree {
  const char* name;
  const char* shape;  // --tree
  int spec_length;    // --spec-length
};
constexpr Tree kTrees[] = {
    {"chain of 3", "chains:1", 3}, {"chain of 5", "chains:1", 5},  {"top:4", "top:4", 1},
    {"top:2x1x1", "top:2x1x1", 3}, {"best:6 of 3", "best:6", 3},   {"grow:4 of 3", "grow:4", 3},
    {"grow:6 of 3", "grow:6", 3},  {"grow:10 of 5", "grow:10", 5},
};

// A text on its way, with trees. Its clock runs while advance() does.
class TreeDecoding {
 public:
  // Computes the prompt. The draft computes it in the first round.
  // REQUIRES: all arguments outlive this object.
  TreeDecoding(BenchmarkTarget& target, TreeDrafter& drafter, const GenerationRequest& request)
      : judge_(target.llama.backend()),
        steps_(target.llama, drafter, drafter.room().levels, target.positions),
        generation_(request, nullptr),
        context_(request.prompt) {
    steps_.prefill(context_);
  }

  // Rounds until the text has so many tokens, or all that were asked for.
  void advance(int tokens) {
    const Stopwatch watch(seconds_);
    while (!finished() && std::ssize(generation_.tokens()) < tokens) {
      tree_round(steps_, judge_, context_, generation_);
      rounds_++;
      nodes_ += steps_.tree().size();
    }
  }
  bool finished() const { return generation_.finished(); }

  std::span<const TokenId> tokens() const { return generation_.tokens(); }
  double seconds() const { return seconds_; }
  double rounds() const { return rounds_; }
  double nodes() const { return nodes_; }

 private:
  GreedyTreeJudge judge_;
  TreeSteps steps_;
  Generation generation_;
  std::vector<TokenId> context_;
  double seconds_ = 0, rounds_ = 0, nodes_ = 0;
};

// Counters: tokens_per_second, chain_tokens_per_second; gain_over_chain, the median over the
// repeats; emitted_per_round, nodes_per_round, the same on every machine; bandwidth of a read
// sweep, before and after.
void compare_with_chain(benchmark::State& state, BenchmarkModels& models, const Tree& tree,
                        const BenchmarkText& text) {
  BenchmarkTarget& target = models.target(kTarget);
  DraftSetup& draft = models.draft(target, kDraft, 2);
  ModelTreeDrafter drafter(*draft.model(), tree_shape(tree.shape, tree.spec_length),
                           target.positions, target.llama.vocab_size());
  const GenerationRequest request = target.request(text);
  std::vector<double> gains, seconds, chain_seconds, bandwidths = {models.bandwidth()};
  for (auto _ : state) {
    Decoding chain(target, draft.drafter(), request, {.spec_length = kChain});
    TreeDecoding decoding(target, drafter, request);
    take_turns(chain, decoding);
    if (!std::ranges::equal(chain.tokens(), decoding.tokens())) fail("a tree changed the text");
    seconds.push_back(decoding.seconds());
    chain_seconds.push_back(chain.stats().decode_seconds);
    gains.push_back(chain_seconds.back() / seconds.back());
    state.SetIterationTime(seconds.back());
    state.counters["emitted_per_round"] =
        static_cast<double>(decoding.tokens().size()) / decoding.rounds();
    state.counters["nodes_per_round"] = decoding.nodes() / decoding.rounds();
  }
  bandwidths.push_back(models.bandwidth());
  state.counters["tokens_per_second"] = request.max_new_tokens / median(seconds);
  state.counters["chain_tokens_per_second"] = request.max_new_tokens / median(chain_seconds);
  state.counters["gain_over_chain"] = median(gains);
  state.counters["bandwidth"] = median(bandwidths);
}

void add_all(BenchmarkModels& models) {
  for (const Tree& tree : kTrees) {
    for (const BenchmarkText& text : benchmark_texts()) {
      const auto run = [&models, &tree, &text](benchmark::State& state) {
        compare_with_chain(state, models, tree, text);
      };
      add_benchmark(fmt::format("trees/target:{}/tree:{}/text:{}", kTarget, tree.name, text.kind),
                    models.settings().repeats, run);
    }
  }
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) { return specdec::run_benchmarks(argc, argv, specdec::add_all); }
