#include "stages/programs/adaptive/adaptive_check.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "common/base/json_value.h"
#include "stages/04_greedy_speculation/greedy_speculation.h"
#include "stages/07_adaptive_drafting/adaptive_spec_length.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/check/golden_check.h"
#include "stages/programs/run/device.h"
#include "stages/programs/run/load_model.h"
#include "stages/programs/speculation/draft_setup.h"

namespace specdec {
namespace {

// [8] what rounds of 0, 1, ... drafts cost, in plain steps.
struct Costs {
  std::string_view name;
  double draft_step, row;
  std::vector<double> rounds() const {
    std::vector<double> costs;
    for (int K = 0; K <= 7; K++) costs.push_back(1 + K * (draft_step + row));
    return costs;
  }
};
constexpr Costs kCosts[] = {
    {"cheap drafts", 0.05, 0}, {"dear rows", 0.2, 0.25}, {"hopeless drafts", 2, 0}};

class Check {
 public:
  Check(const RunOptions& options, const LlamaModel& model)
      : options_(options), model_(model), files_(open_model(options_.target)) {
    files_.token_limit = model.config().vocab_size;
    request_.eos_ids = files_.checkpoint.config().eos_ids;
  }

  // Empty, or what is wrong. spec_lengths: gets every K that there was.
  std::string text(const GoldenText& text, const Costs& costs, std::set<int>& spec_lengths) {
    request_.prompt = text.prompt;
    const std::vector<TokenId> tokens = text.tokens();
    request_.max_new_tokens = static_cast<int>(tokens.size());
    const int positions = std::min(static_cast<int>(request_.prompt.size() + tokens.size()) + 8,
                                   model_.config().max_seq_len);
    DraftSetup draft(options_, files_, model_, {.positions = positions});
    const auto cache = make_cache(model_, cache_layout(options_, positions));
    Llama target(model_, *cache, {.token_limit = files_.token_limit});
    DraftAndVerify steps(target, draft.drafter(),
                         std::make_unique<AdaptiveSpecLength>(costs.rounds()), positions,
                         draft.make_drafts(7));
    Generation generation(request_, nullptr);
    std::vector<TokenId> context = request_.prompt;
    steps.prefill(context);
    while (!generation.finished()) {
      spec_lengths.insert(greedy_round(steps, context, generation).drafted);
    }
    if (std::ranges::equal(generation.tokens(), tokens)) return "";
    const auto differ = std::ranges::mismatch(generation.tokens(), tokens);
    return fmt::format("token {} differs from the golden one",
                       differ.in1 - generation.tokens().begin());
  }

 private:
  RunOptions options_;
  const LlamaModel& model_;
  ModelFiles files_;
  GenerationRequest request_;
};

}  // namespace

int check_adaptive_drafting(const RunOptions& options) {
  const Checkpoint checkpoint(options.target);
  const auto backend = make_backend(options);
  const LlamaModel model = load_target(options, checkpoint, *backend);
  const std::filesystem::path goldens = golden_directory(options.goldens);
  check_belongs(goldens, checkpoint);
  RunOptions roomy = options;
  roomy.pages = 0;
  Check check(roomy, model);
  CheckList list;
  for (const GoldenText& text : golden_texts(goldens, checkpoint.config())) {
    for (const Costs& costs : kCosts) {
      std::set<int> spec_lengths;
      const std::string problem = check.text(text, costs, spec_lengths);
      list.add(problem.empty(),
               fmt::format("greedy text {}, {}: K of {}", text.id, costs.name,
                           fmt::join(spec_lengths, ", ")),
               problem);
    }
  }
  return list.finish();
}

}  // namespace specdec
