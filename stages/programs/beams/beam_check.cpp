#include "stages/programs/beams/beam_check.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "kernels/int_size.h"
#include "stages/programs/beams/beam_batch.h"
#include "stages/programs/beams/beam_session.h"
#include "stages/programs/comparator/number_lists.h"
#include "stages/programs/run/draft_length.h"
#include "stages/programs/speculation/checked_run.h"

namespace specdec {
namespace {

constexpr const char* kFile = "beams.jsonl";
// A line of beams.jsonl.
struct GoldenBeams {
  std::string id;
  GenerationRequest request = {};  // prompt, eos ids and limit
  BeamOptions beams = {};
  int steps = 0;
  std::vector<Hypothesis> hypotheses = {};  // tokens and scores of the best ones
};

EarlyStopping read_stop(const JsonObject& line) {
  const Json* stop = line.find("early_stopping");
  if (stop == nullptr) line.fail_missing("early_stopping");
  const std::string name = stop->is_string() ? stop->get<std::string>() : stop->dump();
  const auto found = find_choice<BeamStop>(name);
  if (!found) line.fail_type("early_stopping", "false, true or \"never\"");
  return static_cast<EarlyStopping>(*found);
}

GoldenBeams read_beams(const JsonObject& line, const LlamaConfig& config) {
  GoldenBeams golden{.id = golden_id(line)};
  golden.request.prompt = read_tokens(line, "prompt_ids", config.vocab_size);
  golden.request.eos_ids = read_integers(line, "eos_ids");
  golden.request.max_new_tokens = line.required_integer("max_new_tokens");
  golden.beams = {.width = line.required_integer("beams"),
                  .length_penalty = line.required_number("length_penalty"),
                  .early_stopping = read_stop(line)};
  golden.steps = line.required_integer("steps");
  if (golden.beams.width < 1 || golden.request.max_new_tokens < 1) {
    fail("{}: at least one beam and one token", line.name());
  }
  for (const Json& value : line.required_list("hypotheses")) {
    const JsonObject hypothesis(value, line.name());
    golden.hypotheses.push_back({.tokens = read_tokens(hypothesis, "tokens", config.vocab_size),
                                 .score = hypothesis.required_number("score")});
  }
  check_golden_length(golden.request.prompt.size(), golden.request.max_new_tokens, config,
                      line.name());
  return golden;
}

std::vector<GoldenBeams> read_all(const CheckedTarget& target) {
  std::vector<GoldenBeams> all;
  const auto path = target.goldens / kFile;
  const LlamaConfig& config = target.model.config();
  for_golden_lines(read_golden_lines(path), path.string(),
                   golden_share(target.options, config).texts,
                   [&](const JsonObject& line) { all.push_back(read_beams(line, config)); });
  return all;
}

// How far a sum of log-probabilities may be from the reference's.
double read_tolerance(const CheckedTarget& target) {
  const std::string path = (target.goldens / "manifest.json").string();
  const Json json = parse_json(read_text_file(path), path);
  return JsonObject(json, path).required_number("beams_tolerance");
}

// Which hypothesis differs, or an empty text.
std::string difference(const GoldenBeams& golden, std::span<const Hypothesis> got,
                       double tolerance) {
  if (got.size() < golden.hypotheses.size()) {
    return fmt::format("{} hypotheses, not {}", got.size(), golden.hypotheses.size());
  }
  for (std::size_t i = 0; i < golden.hypotheses.size(); i++) {
    const Hypothesis& want = golden.hypotheses[i];
    const std::string tokens = golden_difference(got[i].tokens, want.tokens);
    if (!tokens.empty()) return fmt::format("hypothesis {}: {}", i + 1, tokens);
    const double factor = std::pow(want.tokens.size(), golden.beams.length_penalty);
    if (!(std::abs(got[i].score - want.score) * factor <= tolerance)) {
      return fmt::format("hypothesis {}: its score is {}, not {}", i + 1, got[i].score, want.score);
    }
  }
  return "";
}

struct Found {
  std::vector<Hypothesis> hypotheses;
  int steps = 0, passes = 0;
};

Found search(LanguageModel& target, BeamDrafter& drafter, const GoldenBeams& golden,
             const BeamDrafting& drafting) {
  const GenerationRequest& request = golden.request;
  BeamRounds rounds(target, golden.beams.width + drafting.width * drafting.spec_length);
  BeamRun run(target, drafter, golden.beams, drafting, request.prompt, request.eos_ids,
              request.max_new_tokens);
  rounds.prefill(run);
  Found found;
  while (!run.search.finished()) {
    found.steps += int_size(rounds.round(run).steps);
    found.passes++;
  }
  found.hypotheses.assign(run.search.hypotheses().begin(), run.search.hypotheses().end());
  return found;
}

// The target's cache and the drafter, with room for every line.
struct Room {
  Room(const CheckedTarget& checked, std::span<const GoldenBeams> all)
      : options(checked.options),
        tolerance(read_tolerance(checked)),
        capacity(capacity_for(checked, all)),
        self(options, spec_length_of(options)),
        draft(options, checked.files, checked.model, draft_capacity(options, capacity),
              self.parts(SessionParts{.drafting = beam_drafting(options)}).drafting),
        cache(make_cache(checked.model,
                         cache_layout(options, capacity.context + capacity.branches()))),
        llama(checked.model, *cache, {.token_limit = checked.files.token_limit}),
        watched(watch_beams(draft, llama, capacity)),
        target(watched_target(llama, watched.get())) {}

  Capacity capacity_for(const CheckedTarget& checked, std::span<const GoldenBeams> all) {
    Capacity most;
    for (const GoldenBeams& golden : all) {
      options.beams = std::max(options.beams, golden.beams.width);
    }
    for (const GoldenBeams& golden : all) {
      most = larger(most, beam_capacity(options, checked.files, golden.request));
    }
    return most;
  }

  RunOptions options;  // with the largest width
  double tolerance;
  Capacity capacity;
  const SelfDraft self;
  DraftSetup draft;
  std::unique_ptr<KvCache> cache;
  Llama llama;
  std::unique_ptr<TargetRows> watched;
  LanguageModel& target;
};

// Returns what plain beam search finds.
std::vector<Hypothesis> check_line(const GoldenBeams& golden, Room& room, CheckList& list) {
  const int w = golden.beams.width;
  const std::string name = fmt::format("beams {}: {} beams, {} steps", golden.id, w, golden.steps);
  NoBeamDrafter nothing;
  const Found plain = search(room.target, nothing, golden, {.spec_length = 0});
  std::string problem = difference(golden, plain.hypotheses, room.tolerance);
  if (problem.empty() && plain.steps != golden.steps) {
    problem = fmt::format("{} steps, not {}", plain.steps, golden.steps);
  }
  list.check(name, problem);
  RunOptions options = room.options;
  options.beams = w;
  if (options.no_speculation) return plain.hypotheses;
  const BeamDrafting drafting{.width = draft_width(options),
                              .spec_length = spec_length_of(options)};
  const auto drafter = make_beam_drafter(options, room.draft, room.watched.get());
  const Found fast = search(room.target, *drafter, golden, drafting);
  const bool same = fast.hypotheses == plain.hypotheses && fast.steps == plain.steps;
  list.check(fmt::format("{}, {} passes with drafts of {} by {}", name, fast.passes, drafting.width,
                         name_of(options.draft_kind)),
             same ? "" : "not the hypotheses of plain beam search, bit for bit");
  return plain.hypotheses;
}

BatchRequest request_of(const GoldenBeams& golden, RunOptions options) {
  options.beams = golden.beams.width;
  BatchRequest request;
  request.generation = golden.request;
  request.spec_length = spec_length_of(options);
  request.make_extension = [beams = golden.beams, u = draft_width(options)] {
    return std::make_shared<BeamsOfRequest>(beams, u);
  };
  return request;
}

// Searches for all lines in one batch, with too few pages for all at the same time.
void check_batch(const RunOptions& given, std::span<const GoldenBeams> all,
                 std::span<const std::vector<Hypothesis>> plain, CheckList& list) {
  std::vector<BatchRequest> requests;
  std::int64_t longest = 0;
  for (const GoldenBeams& golden : all) {
    requests.push_back(request_of(golden, given));
    const auto extension = requests.back().make_extension();
    const auto& beams = dynamic_cast<const BeamsOfRequest&>(*extension);
    longest = std::max(longest, most_cached(requests.back(), beams).by_target);
  }
  RunOptions options = given;
  const auto pages = [&](int page_size) { return int(3 * longest / 2 / page_size) + 1; };
  if (options.cache == CacheKind::kPaged) {
    options.pages = pages(options.page_size);
    options.draft_pages = pages(options.draft_page_size);
  }
  BeamBatch batch(options, open_model(options.target), requests);
  BatchEngine& engine = batch.session().engine;
  for (const BatchRequest& request : requests) engine.add_request(request);
  while (!engine.idle()) engine.step();
  std::string problem;
  for (std::size_t i = 0; i < all.size(); i++) {
    const RequestResult result = engine.take_result(static_cast<RequestId>(i));
    if (dynamic_cast<const BeamsOfRequest&>(*result.extension).hypotheses == plain[i]) continue;
    problem += fmt::format("beams {}: not the hypotheses of plain beam search\n", all[i].id);
  }
  list.check(fmt::format("{} searches in a batch, up to {} at a time, {} preemptions", all.size(),
                         engine.stats().peak_rounds, engine.stats().preemptions),
             problem);
}

}  // namespace

int check_beam_search(const RunOptions& options) {
  const CheckedTarget target(options);
  const std::vector<GoldenBeams> all = read_all(target);
  CheckList list;
  list.note_missing(target.goldens, {kFile});
  if (all.empty()) return list.finish();
  Room room(target, all);
  std::vector<std::vector<Hypothesis>> plain;
  for (const GoldenBeams& golden : all) plain.push_back(check_line(golden, room, list));
  check_batch(target.options, all, plain, list);
  return list.finish();
}

}  // namespace specdec
