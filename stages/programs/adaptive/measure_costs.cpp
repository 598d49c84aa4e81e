#include "stages/programs/adaptive/measure_costs.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/json_value.h"
#include "common/base/streams.h"
#include "kernels/int_size.h"
#include "stages/03_paged_kv_cache/page_allocator.h"
#include "stages/programs/cache/make_cache.h"
#include "stages/programs/speculation/timing.h"

namespace specdec {
namespace {

constexpr int kContext = 64;  // tokens cached before a round
constexpr int kDrafts = 4;    // the most drafts of a round
constexpr int kLeastSweeps = 5, kMostSweeps = 32;
constexpr double kMostSeconds = 1.5;
constexpr double kLeastSeconds = 1e-12;  // of a draft that costs nothing

std::string shape(const LlamaModel& model) {
  const LlamaConfig& c = model.config();
  return fmt::format(
      "{} layers, d_model {}, {}:{} heads of {}, d_ff {}, vocabulary {}, {} bytes per pass",
      c.n_layers, c.d_model, c.n_heads, c.n_kv_heads, c.head_dim, c.d_ff, c.vocab_size,
      model.layer_bytes() + model.head().bytes());
}

bool is_of_heads(const RunOptions& options) {
  return options.draft_kind == DraftKind::kHeads || options.drafts_in_parallel();
}

// What drafts: models by shape, heads by folder.
std::string description(const RunOptions& options, const DraftSetup& draft) {
  const LlamaModel* own = draft.own_model();
  std::string text = own ? shape(*own) : std::string(name_of(options.draft_kind));
  if (!is_of_heads(options)) return text;
  text += fmt::format(", {}", name_of(options.self_draft));
  if (!own) text += ", " + draft.to_json()["directory"].get<std::string>();
  return options.markov.empty() ? text : text + ", " + options.markov;
}

// The processor's name, or "" if the system does not tell.
std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "";
}

double draft_temperature(const RunOptions& options) {
  return options.draft_temperature.value_or(options.sampling.temperature);
}

Json cost_key(const RunOptions& options, const LlamaModel& target, const DraftSetup& draft,
              int requests) {
  std::string drafts = draft_temperature(options) > 0 ? "drawn" : "likeliest";
  if (draft.own_drafter().capacity(kDrafts).branches() > 0) drafts += ", " + options.tree;
  return {{"specdec", SPECDEC_VERSION},           {"processor", processor()},
          {"device", target.backend().name()},    {"target", shape(target)},
          {"draft", description(options, draft)}, {"drafts", drafts},
          {"kv_dtype", name_of(options.kv_type)}, {"requests", requests}};
}

// Whether the run's gate needs the whole distribution: policies that ask the draft do, as their
// estimates are counted. The budget's own compares two probabilities.
bool asks_for_all(const RunOptions& options) {
  return entry_of(options.draft_length).asks_the_draft;
}

// A budget of rows needs the costs of passes over all numbers of rows.
Json cost_key(const RunOptions& options, const LlamaModel& target, const DraftSetup& draft,
              int requests, int spec_length) {
  Json key = cost_key(options, target, draft, requests);
  if (options.auto_rows) key["rows"] = requests * (spec_length + 1);
  if (options.auto_rows && asks_for_all(options)) key["gate"] = name_of(options.draft_length);
  return key;
}

// The bench has a pool of its own size.
RunOptions without_pool(RunOptions options) {
  options.pages = 0;
  return options;
}

std::vector<Drafts> drafts_for(const DraftSetup& draft, int requests) {
  std::vector<Drafts> drafts;
  drafts.reserve(requests);
  while (std::ssize(drafts) < requests) {
    drafts.push_back(draft.make_drafts(draft.own_drafter().capacity(kDrafts)));
  }
  return drafts;
}

// The size of the draft model's caches.
Capacity draft_capacity(const RunOptions& options, const DraftSetup& draft, int requests,
                        int positions) {
  Capacity capacity = draft.own_drafter().capacity(kDrafts);
  capacity.requests = requests;
  capacity.context = positions;
  capacity.pages = requests * pages_for(positions + capacity.branches(), options.draft_page_size);
  return capacity;
}

// The rows that a drafter watches: those of passes over most_rows rows.
Capacity watched_capacity(const RunOptions& options, const DraftSetup& draft, int requests,
                          int positions, int most_rows) {
  Capacity capacity = draft_capacity(options, draft, requests, positions);
  capacity.verified = std::max(capacity.verified, most_rows - 1);
  return capacity;
}

// A batch of requests with the same text, in caches of its own.
class Bench {
 public:
  // most_rows: of one request in a pass.
  Bench(const RunOptions& options, const ModelFiles& files, const LlamaModel& model,
        const DraftSetup& draft, int requests, int most_rows, int context)
      : context_(context),
        text_(context + most_rows),
        gate_(asks_for_all(options)),
        dice_(0),
        sampling_{options.sampling, &dice_, false, options.auto_rows ? &gate_ : nullptr},
        cache_(
            make_cache(model, cache_layout(without_pool(options), context + most_rows, requests))),
        target_(model, *cache_,
                {.token_limit = files.token_limit,
                 .max_pass_rows = std::max(requests * most_rows, LlamaOptions().max_pass_rows)}),
        logits_(target_, requests * most_rows),
        draft_(draft, draft_capacity(options, draft, requests, context + most_rows)),
        watched_(draft_.watch(
            target_, watched_capacity(options, draft, requests, context + most_rows, most_rows))),
        drafts_(drafts_for(draft, requests)) {
    sampling_.options.temperature = draft_temperature(options);
    // A text that repeats, so that a lookup finds something.
    for (std::size_t i = 0; i < text_.size(); i++) text_[i] = static_cast<TokenId>(i % 8);
    for (Drafts& drafts : drafts_) {
      segments_.push_back({target_.create(), {}, 0});
      requests_.push_back({.sequence = draft_.drafter().create(),
                           .context = std::span(text_).first(static_cast<std::size_t>(context) + 1),
                           .sampling = sampling_,
                           .drafts = &drafts,
                           .target_sequence = segments_.back().sequence});
    }
    pass_over(0, context, 0);
  }

  void target_pass(int rows) { pass_over(context_, rows, rows); }

  // A pass over this many rows of all requests together, which share them as evenly as possible.
  void shared_pass(int rows) {
    const int n = int_size(segments_), taking_part = std::min(rows, n);
    for (int i = 0; i < taking_part; i++) {
      Segment& segment = segments_[i];
      target().truncate(segment.sequence, context_);
      segment.logits_rows = rows / n + (i < rows % n ? 1 : 0);
      segment.tokens = std::span(text_).subspan(context_, segment.logits_rows);
    }
    target().forward(std::span(segments_).first(taking_part), logits_.rows(0, rows));
  }

  // catching_up: the tokens that the drafter feeds anew, besides the pending one.
  void draft(int K, int catching_up) { draft_for(int_size(requests_), K, catching_up); }

  // The same for the first `count` requests.
  void draft_for(int count, int K, int catching_up) {
    const auto some = std::span(requests_).first(count);
    for (DraftRequest& request : some) {
      target().truncate(request.target_sequence, context_);
      draft_.drafter().truncate(request.sequence, context_ - catching_up);
      request.spec_length = K;
    }
    draft_.drafter().draft(some);
  }

 private:
  void pass_over(int first, int rows, int logits_rows) {
    for (Segment& segment : segments_) {
      target().truncate(segment.sequence, first);
      segment.tokens = std::span(text_).subspan(first, rows);
      segment.logits_rows = logits_rows;
    }
    target().forward(segments_, logits_.rows(0, int_size(segments_) * logits_rows));
  }
  LanguageModel& target() { return watched_target(target_, watched_.get()); }

  // Costs what the gate of a run costs: the distribution, or two probabilities of it.
  class OpenGate final : public DraftGate {
   public:
    explicit OpenGate(bool asks_for_all) : asks_for_all_(asks_for_all) {}
    bool goes_on(std::span<const double>, int) override { return true; }
    bool compares_two() const override { return !asks_for_all_; }

   private:
    bool asks_for_all_;
  };

  int context_;
  std::vector<TokenId> text_;
  OpenGate gate_;
  Dice dice_;
  Sampling sampling_;
  std::unique_ptr<KvCache> cache_;
  Llama target_;
  LogitsBuffer logits_;
  DraftSetup draft_;
  std::unique_ptr<TargetRows> watched_;  // the target as a drafter watches it; null: none does
  std::vector<Drafts> drafts_;
  std::vector<Segment> segments_;
  std::vector<DraftRequest> requests_;
};

void show_progress(double part) {
  if (::isatty(STDERR_FILENO) == 0) return;
  say("\rmeasuring what drafts and passes cost: {:3.0f}%", 100 * part);
  if (part >= 1) say("\r\x1b[K");
}

// Calls sweep() until the samples are enough.
void repeat(const std::function<void()>& sweep) {
  double spent = 0;
  for (int i = 0; i < kMostSweeps && (i < kLeastSweeps || spent < kMostSeconds); i++) {
    spent += seconds_of(sweep);
    show_progress(std::min(1.0, std::max(spent / kMostSeconds, (i + 1.0) / kMostSweeps)));
  }
  show_progress(1);
}

// The costs of drafts, from the seconds of rounds with 1, 2, ... drafts. A draft model takes a step
// for each. What heads take depends on K less or more, so theirs is the line from the fewest drafts
// to the most.
CostProfile with_drafts(const Json& key, std::vector<double> target_pass,
                        const std::vector<std::vector<double>>& drafting, bool of_heads) {
  if (of_heads) {
    const double one = median(drafting.front()), all = median(drafting.back());
    const double step = std::max(0.0, (all - one) / std::max(1, int_size(drafting) - 1));
    return make_profile(key, std::move(target_pass), step, std::max(0.0, one - step));
  }
  std::vector<double> steps;
  for (int K = 1; K <= int_size(drafting); K++) {
    for (const double seconds : drafting[K - 1]) steps.push_back(seconds / K);
  }
  return make_profile(key, std::move(target_pass), median(steps));
}

// Positions that both models have.
int context_limit(const LlamaModel& target, const DraftSetup& draft) {
  return std::min(target.config().max_seq_len,
                  draft.own_model() ? draft.own_model()->config().max_seq_len : 1 << 30);
}

// Measures passes over every number of rows in turn, each after the drafts of such a round, so that
// the processor's cache is as in a run. A plain step follows a plain step. Heads catch up on as
// many tokens as they draft, because they keep nothing of a round.
CostProfile measure(const RunOptions& options, const ModelFiles& files, const LlamaModel& target,
                    const DraftSetup& draft, int requests, const Json& key) {
  const int limit = context_limit(target, draft);
  const int most_rows = std::min(kLargestAutoSpecLength + 1, limit - 1);
  if (most_rows < 2) fail("--spec-length {}: a context of {} has no room for drafts", kAuto, limit);
  Bench bench(options, files, target, draft, requests, most_rows,
              std::min(kContext, limit - most_rows));
  const int most_drafts = draft.own_drafter().capacity(kDrafts).levels;
  const bool of_heads = is_of_heads(options);
  std::vector<std::vector<double>> passes(most_rows), drafting(most_drafts);
  bench.draft(1, 0);  // catches up
  repeat([&] {
    for (int rows = 1; rows <= most_rows; rows++) {
      const int K = std::min(rows - 1, most_drafts);
      if (K == 0) {
        bench.target_pass(1);
      } else {
        drafting[K - 1].push_back(seconds_of([&] { bench.draft(K, of_heads ? K : 0); }));
      }
      passes[rows - 1].push_back(seconds_of([&] { bench.target_pass(rows); }));
    }
  });
  std::vector<double> target_pass;
  for (const std::vector<double>& samples : passes) target_pass.push_back(median(samples));
  return with_drafts(key, std::move(target_pass), drafting, of_heads);
}

// 1, 2, 3, ... and then in steps of a quarter, up to `most`.
std::vector<int> counts_up_to(int most) {
  std::vector<int> counts;
  for (int count = 1; count < most; count += std::max(1, count / 4)) counts.push_back(count);
  counts.push_back(most);
  return counts;
}

std::vector<CostCurve::Point> median_points(std::span<const int> counts,
                                            std::span<const std::vector<double>> samples) {
  std::vector<CostCurve::Point> points;
  for (std::size_t i = 0; i < counts.size(); i++) points.push_back({counts[i], median(samples[i])});
  return points;
}

// For --rows auto: passes over every number of rows of a batch with up to spec_length drafts each,
// and rounds of one draft and of the most for every number of requests, in turn as in a run. The
// other costs follow from these.
CostProfile measure_by_rows(const RunOptions& options, const ModelFiles& files,
                            const LlamaModel& target, const DraftSetup& draft, int requests,
                            int spec_length, const Json& key) {
  const int context = std::min(kContext, context_limit(target, draft) - spec_length - 1);
  if (context < 1) fail("--rows {}: the context has no room for {} drafts", kAuto, spec_length);
  Bench bench(options, files, target, draft, requests, spec_length + 1, context);
  const int K = std::min(spec_length, draft.own_drafter().capacity(kDrafts).levels);
  const bool of_heads = is_of_heads(options);
  const std::vector<int> rows = counts_up_to(requests * (spec_length + 1)),
                         drafting = counts_up_to(requests);
  std::vector<std::vector<double>> passes(rows.size()), one(drafting.size()), most(drafting.size());
  bench.draft(1, 0);  // catches up
  repeat([&] {
    for (std::size_t i = 0; i < rows.size(); i++) {
      const std::size_t n = i % drafting.size();
      // Every draft follows a pass, which has filled the processor's cache with other weights.
      const auto round = [&](std::vector<double>& drafts, int k) {
        drafts.push_back(seconds_of([&] { bench.draft_for(drafting[n], k, of_heads ? k : 0); }));
        passes[i].push_back(seconds_of([&] { bench.shared_pass(rows[i]); }));
      };
      round(one[n], 1);
      round(most[n], K);
    }
  });
  const std::vector<CostCurve::Point> by_rows = median_points(rows, passes),
                                      first_drafts = median_points(drafting, one);
  std::vector<CostCurve::Point> next_drafts = median_points(drafting, most);
  for (std::size_t i = 0; K > 1 && i < next_drafts.size(); i++) {
    const double more = next_drafts[i].seconds - first_drafts[i].seconds;
    next_drafts[i].seconds = std::max(kLeastSeconds, more / (K - 1));
  }
  const CostCurve curve(by_rows);
  std::vector<double> target_pass;
  for (int k = 0; k <= spec_length; k++) target_pass.push_back(curve.seconds(requests * (k + 1)));
  const double step = next_drafts.back().seconds;
  CostProfile profile = make_profile(key, std::move(target_pass), step,
                                     std::max(0.0, first_drafts.back().seconds - step));
  profile.passes_by_rows = by_rows;
  profile.first_drafts_by_requests = first_drafts;
  profile.next_drafts_by_requests = next_drafts;
  return profile;
}

}  // namespace

CostProfile load_or_measure_costs(const RunOptions& options, const ModelFiles& files,
                                  const LlamaModel& target, const DraftSetup& draft, int requests,
                                  int spec_length) {
  const Json key = cost_key(options, target, draft, requests, spec_length);
  CostProfile profile = stored_profile(
      profile_file(options.cost_profile, key), key,
      [&] {
        return options.auto_rows
                   ? measure_by_rows(options, files, target, draft, requests, spec_length, key)
                   : measure(options, files, target, draft, requests, key);
      },
      [&](const std::string& note) { say("{}: note: {}\n", stage_name(options.stage), note); });
  if (options.auto_rows && !profile.has_rows()) {
    fail("{}: has no passes_by_rows, which --rows {} needs: give the name of a new file",
         options.cost_profile, kAuto);
  }
  return profile;
}

}  // namespace specdec
