#include "stages/programs/beams/beam_batch.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/base/error.h"
#include "kernels/int_size.h"
#include "stages/programs/adaptive/drafters.h"
#include "stages/programs/batch/batch_report.h"
#include "stages/programs/batch/queue_inbox.h"
#include "stages/programs/beams/beam_options.h"
#include "stages/programs/beams/beam_report.h"
#include "stages/programs/beams/beam_session.h"
#include "stages/programs/run/draft_length.h"

namespace specdec {
namespace {

// A search, and what a report shows of it.
struct ShownBeams : BeamsOfRequest {
  explicit ShownBeams(const RunOptions& options_)
      : BeamsOfRequest(beam_options(options_), specdec::draft_width(options_)), options(options_) {}

  const RunOptions options;
};

// A drafter that drafts for each beam, and what it uses.
struct EachBeamParts {
  std::unique_ptr<DraftSetup> setup;
  std::unique_ptr<Drafter> by_heads;
  std::unique_ptr<BeamDrafter> drafter;
};

// Calls back for each request that is a search.
template <typename Look>
void for_searches(std::span<const BatchRequest> requests, Look&& look) {
  for (const BatchRequest& request : requests) {
    if (!request.make_extension) continue;
    const auto extension = request.make_extension();
    look(request, dynamic_cast<const BeamsOfRequest&>(*extension));
  }
}

// The sum of the largest of these numbers, `count` of them.
int sum_of_largest(std::vector<int> numbers, int count) {
  std::ranges::sort(numbers, std::greater());
  int sum = 0;
  for (int i = 0; i < std::min(count, int_size(numbers)); i++) sum += numbers[i];
  return sum;
}

MostCached most_of(const BatchRequest& request) {
  MostCached most = most_cached(request, Capacity::of_chain, 1 << 30);
  for_searches(std::span(&request, 1), [&](const BatchRequest&, const BeamsOfRequest& beams) {
    most = most_cached(request, beams);
  });
  return most;
}

RunOptions sized_for_beams(std::span<const BatchRequest> requests, const RunOptions& options) {
  RunOptions sized = sized_for(requests, options, Capacity::of_chain, most_of);
  if (options.token_budget > 0) return sized;
  std::vector<int> rows;
  for (const BatchRequest& request : requests) rows.push_back(request.spec_length + 1);
  for_searches(requests, [&](const BatchRequest& request, const BeamsOfRequest& beams) {
    rows.push_back(beams.most_rows(request.spec_length));
  });
  sized.token_budget = token_budget_for(sum_of_largest(rows, sized.max_batch));
  return sized;
}

ReportExtras extras_of(const ModelFiles& files, const BatchRequest& request,
                       const RequestResult& result) {
  const auto* shown = dynamic_cast<const ShownBeams*>(result.extension.get());
  if (shown == nullptr || shown->hypotheses.empty()) return {};
  const FoundTexts found{shown->options, files, request.generation, shown->hypotheses};
  return {.fields = to_json(found), .summary = other_texts(found)};
}

// Throws Error for a line that says how to search, but not with how many beams. all: the options
// of the command line.
void check_is_search(const RunOptions& line, const RunOptions& all) {
  const auto refuse = [](bool differs, std::string_view option) {
    if (differs) fail("{} goes with --beams", option);
  };
  refuse(line.draft_beams != all.draft_beams, "--draft-beams");
  refuse(line.length_penalty != all.length_penalty, "--length-penalty");
  refuse(line.early_stopping != all.early_stopping, "--early-stopping");
  refuse(line.num_return != all.num_return, "--num-return");
}

}  // namespace

BatchRequest to_beam_request(const ModelFiles& files, const RunOptions& options) {
  BatchRequest request = to_batch_request(files, options);
  if (options.beams == 0) return request;
  check_widths(options, files);
  request.make_extension = [options] { return std::make_shared<ShownBeams>(options); };
  return request;
}

BeamBatch::BeamBatch(const RunOptions& options, ModelFiles files,
                     std::span<const BatchRequest> requests)
    : widest_(options), self_(widest_, spec_length_of(widest_)) {
  std::vector<int> draft_rows;
  widest_.beams = 1;
  for_searches(requests, [&](const BatchRequest& request, const BeamsOfRequest& beams) {
    draft_rows.push_back(std::max(beams.options.width, beams.draft_width));
    if (beams.options.width > widest_.beams) {
      widest_.beams = beams.options.width;
      widest_.draft_beams = beams.draft_width;
    }
    const std::int64_t cached = most_cached(request, beams).by_draft;
    cached_by_draft_ = static_cast<int>(std::max<std::int64_t>(cached_by_draft_, cached));
  });
  const RunOptions sized = sized_for_beams(requests, options);
  draft_rows_ = std::max(1, sum_of_largest(draft_rows, sized.max_batch));
  session_ = std::make_unique<BatchSession>(sized, std::move(files), parts(sized.max_batch));
  const LlamaConfig& target = session_->target.model.config();
  session_->memory.logits +=
      sizeof(float) * target.vocab_size * std::size_t(session_->sizes.token_budget + draft_rows_);
  session_->extras_of = [&files = session_->files](const BatchRequest& request,
                                                   const RequestResult& result) {
    return extras_of(files, request, result);
  };
}

// The draft's cache has room for a chain, and for the texts of all beams beside it.
BatchParts BeamBatch::parts(int at_a_time) {
  BatchParts parts;
  parts.drafting = adaptive_drafting(KeepProbs::kBesideLogits, false);
  parts.capacity = [beside = cached_by_draft_](int K) {
    Capacity capacity = Capacity::of_chain(K);
    capacity.nodes += beside;
    return capacity;
  };
  parts.make_rounds = [this](BatchSession& session) {
    return [this, &session](LanguageModel& target, Drafter& drafter, const Judging& judging,
                            int max_batch, int spec_length) -> std::unique_ptr<BatchedRounds> {
      return std::make_unique<RoundsWithBeams>(target, drafter, judging, max_batch, spec_length,
                                               make_drafter(session), session.sizes.token_budget);
    };
  };
  parts = self_.parts(std::move(parts));
  if (!parts.drafting.make_heads) return parts;
  parts.drafting.make_heads =
      [make = parts.drafting.make_heads, beams = at_a_time * (widest_.beams + 1)](
          const ModelFiles& files, const LlamaModel& target, Capacity capacity) {
        capacity.requests += beams;
        return make(files, target, capacity);
      };
  return parts;
}

// For beams: the model that drafts for texts, too, or a drafter that drafts for each beam.
std::shared_ptr<BeamDrafter> BeamBatch::make_drafter(BatchSession& session) {
  if (session.options.no_speculation) return std::make_shared<NoBeamDrafter>();
  if (drafts_for_each(widest_)) return make_for_each(session);
  return std::make_shared<ModelBeamDrafter>(*session.draft.model(), draft_rows_,
                                            session.draft.tell_damage());
}

// On the session's heads, or with everything that it needs.
std::shared_ptr<BeamDrafter> BeamBatch::make_for_each(BatchSession& session) {
  Capacity capacity = draft_capacity(widest_, session.sizes.capacity);
  capacity.pages = 0;  // enough
  const Drafting drafting = self_.parts(SessionParts{.drafting = beam_drafting(widest_)}).drafting;
  const auto parts = std::make_shared<EachBeamParts>();
  if (widest_.draft_kind == DraftKind::kHeads) {
    parts->by_heads = std::make_unique<SoundDrafter>(
        drafting.make(*session.draft.model(), capacity, session.target.llama.vocab_size()),
        session.draft.tell_damage());
    const Capacity of_beam = parts->by_heads->capacity(spec_length_of(widest_));
    parts->drafter = std::make_unique<EachBeamDrafter>(*parts->by_heads, Drafts(of_beam, 0),
                                                       session.watched.get());
  } else {
    parts->setup = std::make_unique<DraftSetup>(widest_, session.files, session.target.model,
                                                capacity, drafting);
    parts->drafter = make_beam_drafter(widest_, *parts->setup, nullptr);
  }
  return {parts, parts->drafter.get()};
}

int serve_beams(const RunOptions& options) {
  ModelFiles files = open_model(options.target);
  QueueInbox inbox(options, files, [&](const ModelFiles& model, const RunOptions& line) {
    if (line.beams == 0) check_is_search(line, options);
    return to_beam_request(model, line);
  });
  BeamBatch batch(options, std::move(files), inbox.requests());
  BatchReport report(batch.session(), inbox.requests());
  report.begin();
  inbox.report_to(report);
  serve(batch.session().engine, inbox);
  return report.finish();
}

}  // namespace specdec
