#include "stages/programs/beams/beam_options.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "common/base/error.h"
#include "common/llama.h"
#include "stages/08_token_trees/lookup_tree_drafter.h"
#include "stages/08_token_trees/tree_drafter.h"
#include "stages/programs/adaptive/drafters.h"
#include "stages/programs/run/draft_length.h"

namespace specdec {
namespace {

constexpr int kDefaultBeams = 4, kDraftBeams = 6;  // w and u by default

// The tree of one beam.
std::unique_ptr<TreeShape> grown(const RunOptions& options) {
  constexpr int kMostWidth = 8;
  const int u = draft_width(options), K = std::max(1, spec_length_of(options));
  return std::make_unique<GrownTree>(u * K, std::min(u, kMostWidth), K);
}

}  // namespace

RunOptions with_beams(RunOptions options) {
  if (options.beams == 0) options.beams = kDefaultBeams;
  return options;
}

BeamOptions beam_options(const RunOptions& options) {
  return {.width = options.beams,
          .length_penalty = options.length_penalty,
          .early_stopping = static_cast<EarlyStopping>(options.early_stopping)};
}

int draft_width(const RunOptions& options) {
  return options.draft_beams > 0 ? options.draft_beams : std::max(kDraftBeams, options.beams);
}

void check_widths(const RunOptions& options, const ModelFiles& files) {
  const int w = options.beams, u = draft_width(options);
  if (w > files.token_limit) {
    fail("--beams {}: the vocabulary has {} tokens, so a search never has so many beams", w,
         files.token_limit);
  }
  if (u < w && !options.no_speculation) {
    fail("--draft-beams {} is less than --beams {}: some beams would never be drafted", u, w);
  }
  if (options.num_return > w) {
    fail("--num-return {}: a search with --beams {} finds {} texts", options.num_return, w, w);
  }
}

void check_beam_options(const RunOptions& options, const ModelFiles& files) {
  check_widths(options, files);
  const int w = options.beams, u = draft_width(options);
  const int most = LlamaOptions().max_pass_rows;
  const auto rows = std::int64_t{w} + std::int64_t{u} * spec_length_of(options);
  if (rows > most) {
    fail("{} beams and {} x {} drafts are {} rows, and a pass has {}: reduce {}", w, u,
         spec_length_of(options), rows, most,
         options.no_speculation ? "--beams" : "--beams, --draft-beams or --spec-length");
  }
}

Capacity beam_capacity(const RunOptions& options, const ModelFiles& files,
                       const GenerationRequest& request) {
  const int K = spec_length_of(options), w = options.beams;
  const std::int64_t longest = std::ssize(request.prompt) + std::int64_t{request.max_new_tokens};
  const std::int64_t beside = std::int64_t{w - 1} * request.max_new_tokens;
  const std::int64_t drafts = std::int64_t{draft_width(options)} * K;
  if (longest + beside + drafts > 1 << 30) {
    fail("{} beams of {} tokens are more than any cache holds: reduce --beams or --max-new-tokens",
         w, request.max_new_tokens);
  }
  Capacity capacity = Capacity::of_chain(K);
  capacity.context =
      static_cast<int>(std::min<std::int64_t>(context_limit(files, options), longest + K));
  capacity.nodes = K + static_cast<int>(beside + drafts);
  return capacity;
}

bool drafts_for_each(const RunOptions& options) {
  const DraftNeeds needs = entry_of(options.draft_kind).needs;
  const bool ranks = needs == DraftNeeds::kModel || needs == DraftNeeds::kText;
  return !ranks || options.drafts_in_parallel();
}

Capacity draft_capacity(const RunOptions& options, Capacity capacity) {
  if (!drafts_for_each(options)) return capacity;
  capacity.requests *= options.beams + 1;
  capacity.nodes = std::max(capacity.levels, grown(options)->capacity(capacity.levels).nodes);
  return capacity;
}

Drafting beam_drafting(const RunOptions& options) {
  Drafting drafting;
  drafting.make_learning = make_learning_drafter;
  const int each = std::max(1, draft_width(options) / options.beams);
  drafting.make_lookup = [each, levels = spec_length_of(options)] {
    return std::make_unique<LookupTreeDrafter>(
        LookupTreeDrafter::Options{.continuations = each, .levels = levels});
  };
  if (needs_model(options.draft_kind) && !drafts_for_each(options)) return drafting;
  drafting.make = [options](LanguageModel& model, const Capacity& capacity, int vocab_size) {
    return std::make_unique<ModelTreeDrafter>(
        model, [options] { return grown(options); }, capacity.context + 1, vocab_size,
        capacity.requests);
  };
  return drafting;
}

}  // namespace specdec
