#include "stages/programs/batch/batch_check.h"

#include <algorithm>
#include <limits>

#include "common/base/error.h"
#include "kernels/int_size.h"
#include "stages/programs/batch/batch_session.h"
#include "stages/programs/check/golden_check.h"
#include "stages/programs/sampling/golden_run.h"

namespace specdec {
namespace {

// A request, and its output by an independent implementation.
struct Golden {
  BatchRequest request;
  std::string id;
  std::vector<TokenId> tokens;
  std::int64_t rounds = 0;  // 0: not recorded
};

Golden greedy_text(const GoldenText& text, const LlamaConfig& config) {
  Golden golden;
  golden.id = "greedy text " + text.id;
  golden.tokens = text.tokens();
  golden.request.generation = {
      .prompt = text.prompt, .max_new_tokens = int_size(text.steps), .eos_ids = config.eos_ids};
  golden.request.spec_length = 5;
  golden.request.context_limit = config.max_seq_len;
  return golden;
}

Golden recorded_run(const GoldenRun& run) {
  return {.request = {.generation = run.generation,
                      .speculation = run.speculation,
                      .seed = run.seed,
                      .spec_length = run.spec_length,
                      .context_limit = run.context_limit},
          .id = "recorded run " + run.id,
          .tokens = run.tokens,
          .rounds = std::ssize(run.rounds)};
}

// Recorded runs exist for the embedded pair only; other targets have greedy texts only.
std::vector<Golden> read_goldens(const RunOptions& options) {
  const std::filesystem::path folder = golden_directory(options.goldens);
  const Checkpoint target(options.target);
  std::vector<Golden> goldens;
  for (const GoldenText& text : texts_to_check(options, target)) {
    goldens.push_back(greedy_text(text, target.config()));
  }
  for (const GoldenRun& run : golden_runs(folder, target.config())) {
    goldens.push_back(recorded_run(run));
  }
  if (goldens.empty()) fail("{}: has no greedy.jsonl", folder.string());
  return goldens;
}

// Runs all goldens at once. Returns a line for each one that comes out differently.
std::string differences(BatchEngine& engine, std::span<const Golden> goldens) {
  for (const Golden& golden : goldens) engine.add_request(golden.request);
  while (!engine.idle()) engine.step();
  std::string lines;
  for (std::size_t i = 0; i < goldens.size(); i++) {
    const Golden& want = goldens[i];
    const RequestResult got = engine.take_result(static_cast<RequestId>(i));
    if (got.tokens != want.tokens) {
      lines += fmt::format("{}: {}\n", want.id, golden_difference(got.tokens, want.tokens));
    } else if (want.rounds > 0 && got.stats.run.rounds != want.rounds) {
      lines += fmt::format("{}: {} rounds, not {}\n", want.id, got.stats.run.rounds, want.rounds);
    }
  }
  return lines;
}

class Check {
 public:
  explicit Check(RunOptions options)
      : options_(std::move(options)), goldens_(read_goldens(options_)) {
    for (const Golden& golden : goldens_) {
      requests_.push_back(golden.request);
      longest_ = std::max(
          longest_, most_cached(golden.request, Capacity::of_chain, std::numeric_limits<int>::max())
                        .by_target);
    }
    if (has_rounds() && !needs_model(options_.draft_kind)) {
      fail("--check compares rounds, too: give --draft-kind {}", drafters_with_models());
    }
  }

  void run(CheckList& list, CacheKind cache, int page_size, int pages) {
    RunOptions options = options_;
    options.cache = cache;
    options.page_size = options.draft_page_size = page_size;
    options.pages = options.draft_pages = pages;
    BatchSession session(sized_for(requests_, options), open_model(options.target));
    const std::string problems = differences(session.engine, goldens_);
    const EngineStats& stats = session.engine.stats();
    const std::string where =
        cache == CacheKind::kPaged
            ? fmt::format("pages of {}, {} of them", page_size, session.sizes.pages)
            : "contiguous regions";
    list.check(
        fmt::format("{} requests, up to {} at a time, in {}: {} tokens, {} preemptions",
                    goldens_.size(), stats.peak_rounds, where, stats.emitted, stats.preemptions),
        problems);
  }

  // Whether recorded runs are among the goldens, as for the embedded pair.
  bool has_rounds() const {
    return std::ranges::any_of(goldens_, [](const Golden& golden) { return golden.rounds > 0; });
  }

  // Too few pages for a whole batch, so that requests are preempted.
  int few_pages(int page_size) const { return static_cast<int>(3 * longest_ / 2 / page_size) + 1; }

 private:
  RunOptions options_;
  std::vector<Golden> goldens_;
  std::vector<BatchRequest> requests_;
  std::int64_t longest_ = 0;
};

}  // namespace

int check_batched_verification(const RunOptions& options) {
  Check check(options);
  CheckList list;
  list.note_missing(golden_directory(options.goldens), {"greedy.jsonl", "sampling.jsonl"});
  check.run(list, CacheKind::kContiguous, 16, 0);
  if (check.has_rounds()) {  // the embedded pair is small, so there is time for more
    check.run(list, CacheKind::kPaged, 16, 0);
    check.run(list, CacheKind::kPaged, 1, 0);
    check.run(list, CacheKind::kPaged, 3, check.few_pages(3));
  }
  check.run(list, CacheKind::kPaged, 16, check.few_pages(16));
  return list.finish();
}

}  // namespace specdec
