#include "stages/programs/trees/tree_check.h"

#include <algorithm>

#include "stages/08_token_trees/tree_round.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/check/golden_check.h"
#include "stages/programs/run/device.h"
#include "stages/programs/run/load_model.h"
#include "stages/programs/run/request.h"
#include "stages/programs/speculation/draft_setup.h"
#include "stages/programs/trees/tree_run.h"

namespace specdec {
namespace {

constexpr const char* kShapes[] = {"top:3x2x1", "top:1x1x1x1x1", "best:12", "grow:12"};
constexpr const char* kShapesOfLookup[] = {"chains:3"};  // copies have no ranks

class Check {
 public:
  Check(const RunOptions& options, const LlamaModel& model)
      : options_(options), model_(model), files_(open_model(options.target)) {
    request_.eos_ids = files_.checkpoint.config().eos_ids;
  }

  // Empty, or what is wrong.
  std::string text(const GoldenText& text, const std::string& shape, CacheKind kind) {
    RunOptions options = options_;
    options.cache = kind;
    options.pages = 0;
    options.tree = shape;
    options.spec_length = 5;
    const std::vector<TokenId> want = text.tokens();
    request_.prompt = text.prompt;
    request_.max_new_tokens = static_cast<int>(want.size());
    TreeRun trees(options);
    const SessionParts parts = trees.parts();
    const int K = trees.options().spec_length;
    Capacity capacity = parts.capacity(K);
    const int positions = std::min(static_cast<int>(text.prompt.size() + want.size()) + K,
                                   model_.config().max_seq_len);
    capacity.context = positions;
    DraftSetup draft(options, files_, model_, capacity, parts.drafting);
    const auto cache = make_cache(model_, cache_layout(options, positions + capacity.branches()));
    Llama target(model_, *cache, {.token_limit = files_.token_limit});
    DraftAndVerify steps(target, draft.drafter(), fixed_spec_length(K), positions,
                         draft.make_drafts(capacity));
    GreedyTreeJudge judge(target.backend());
    Generation generation(request_, nullptr);
    std::vector<TokenId> context = request_.prompt;
    steps.prefill(context);
    while (!generation.finished()) tree_round(steps, judge, context, generation);
    if (std::ranges::equal(generation.tokens(), want)) return "";
    const auto differ = std::ranges::mismatch(generation.tokens(), want);
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

int check_token_trees(const RunOptions& options) {
  const Checkpoint checkpoint(options.target);
  const auto backend = make_backend(options);
  const LlamaModel model = load_target(options, checkpoint, *backend);
  const std::filesystem::path goldens = golden_directory(options.goldens);
  check_belongs(goldens, checkpoint);
  Check check(options, model);
  CheckList list;
  list.note_missing(goldens, {"greedy.jsonl"});
  const bool by_lookup = options.draft_kind == DraftKind::kLookup;
  const auto shapes = by_lookup ? std::span<const char* const>(kShapesOfLookup)
                                : std::span<const char* const>(kShapes);
  const int texts = golden_share(options, checkpoint.config()).texts;
  for (const GoldenText& text : golden_texts(goldens, checkpoint.config(), texts)) {
    for (const CacheKind kind : {CacheKind::kPaged, CacheKind::kContiguous}) {
      for (const char* shape : shapes) {
        if (kind == CacheKind::kContiguous && !text.id.ends_with("-0")) continue;
        const std::string problem = check.text(text, shape, kind);
        list.add(problem.empty(),
                 fmt::format("greedy text {}, {}, {} cache", text.id, shape, name_of(kind)),
                 problem);
      }
    }
  }
  return list.finish();
}

}  // namespace specdec
