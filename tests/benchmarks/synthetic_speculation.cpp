// Stage 4 with drafts that cost what a real drafter's do, but are right with a chosen probability,
// each independently of all others, and otherwise certainly wrong.
//
//   synthetic_speculation PROBABILITY [stage 4's options]
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "stages/04_greedy_speculation/greedy_speculation.h"
#include "stages/programs/run/stage_main.h"
#include "stages/programs/speculation/session.h"
#include "tests/scripted_drafter.h"

namespace specdec {
namespace {

class CostlySyntheticDrafter final : public SyntheticDrafter {
 public:
  CostlySyntheticDrafter(Drafter& drafter, std::vector<TokenId> text, double alpha, int vocab_size)
      : SyntheticDrafter(std::move(text), alpha, 1, vocab_size), drafter_(drafter) {}

  SequenceId create() override {
    sequence_ = drafter_.create();
    return SyntheticDrafter::create();
  }
  void release(SequenceId sequence) override {
    drafter_.release(sequence_);
    SyntheticDrafter::release(sequence);
  }
  void draft(std::span<const DraftRequest> requests) override {
    DraftRequest request = requests.front();
    request.sequence = sequence_;
    drafter_.draft(std::span(&request, 1));
    SyntheticDrafter::draft(requests);  // in place of what the drafter proposed
  }
  void truncate(SequenceId sequence, int length) override {
    drafter_.truncate(sequence_, length);
    SyntheticDrafter::truncate(sequence, length);
  }
  std::int64_t forwards() const override { return drafter_.forwards(); }

 private:
  Drafter& drafter_;
  SequenceId sequence_ = 0;  // of the drafter
};

// The prompt and what the target writes after it, far enough for the drafts of the last round.
std::vector<TokenId> greedy_text(RunOptions options) {
  options.no_speculation = true;
  options.max_new_tokens += kSpecLengths.highest + 1;
  Session plain(options);
  plain.prefill();
  while (!plain.generation.finished()) greedy_round(plain.steps, plain.context, plain.generation);
  return plain.context;
}

int run(const RunOptions& options, double alpha) {
  Session session(options, {.compose = [&](DraftSetup& base, const Capacity&) {
                    return std::make_shared<CostlySyntheticDrafter>(
                        base.own_drafter(), greedy_text(options), alpha,
                        base.target_files().token_limit);
                  }});
  GreedyEvidence evidence(session.steps);
  session.prefill();
  while (!session.generation.finished()) {
    session.before_round();
    const Round round = greedy_round(session.steps, session.context, session.generation);
    session.after_round(round, evidence);
  }
  session.finish({.choose = [&](std::span<const TokenId>) {
    argmax(*session.target.backend, session.steps.logits(0));
  }});
  return kGood;
}

}  // namespace
}  // namespace specdec

int main(int argc, char** argv) {
  char* end = nullptr;
  const double alpha = argc > 1 ? std::strtod(argv[1], &end) : -1;
  if (end == nullptr || *end != '\0' || !(alpha >= 0 && alpha <= 1)) {
    std::fprintf(stderr, "usage: %s PROBABILITY [stage 4's options]\n", argv[0]);
    return 2;
  }
  argv[1] = argv[0];
  return specdec::stage_main(
      4, "Stage 4 with drafts of a chosen probability to be right.", argc - 1, argv + 1,
      [alpha](const specdec::RunOptions& options) { return specdec::run(options, alpha); });
}
