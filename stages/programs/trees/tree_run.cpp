#include "stages/programs/trees/tree_run.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/base/error.h"
#include "stages/08_token_trees/lookup_tree_drafter.h"
#include "stages/08_token_trees/side_by_side_drafter.h"
#include "stages/08_token_trees/tree_drafter.h"
#include "stages/08_token_trees/tree_round.h"
#include "stages/programs/adaptive/drafters.h"
#include "stages/programs/batch/batch_report.h"
#include "stages/programs/run/draft_length.h"
#include "stages/programs/sampling/speculation_options.h"
#include "stages/programs/trees/device_tree_brancher.h"
#include "stages/programs/trees/shape_option.h"

namespace specdec {
namespace {

// The capacity of rounds with --tree, by a draft model, by prompt lookup, or by either of them.
RoundCapacity round_capacity(const RunOptions& options, const MakeTreeShape& shape) {
  const RoundCapacity of_model = capacity_of(shape);
  if (options.draft_kind != DraftKind::kLookup && options.fallback.empty()) return of_model;
  const auto lookup = std::make_shared<LookupTreeDrafter>(LookupTreeDrafter::options_for(*shape()));
  if (options.fallback.empty()) return [lookup](int K) { return lookup->capacity(K); };
  return [lookup, of_model](int K) { return larger(lookup->capacity(K), of_model(K)); };
}

// Why every request has the tree of the run; "" if it may have one of its own.
std::string_view why_one_tree(const RunOptions& options) {
  const std::string_view suffix = name_of(DraftKind::kSuffix);
  if (!options.other_drafts.empty()) return "several draft models";
  if (options.draft_kind == DraftKind::kSuffix) return "suffix drafts";
  return options.fallback.find(suffix) != std::string::npos ? "suffix drafts" : "";
}

// Throws Error if a tree needs more memory than there is.
void check_room(const std::string& tree, const Capacity& needed, const RunOptions& run,
                const Capacity& room) {
  static constexpr std::pair<std::string_view, int Capacity::*> kParts[] = {
      {"levels", &Capacity::levels},
      {"drafted tokens", &Capacity::nodes},
      {"tokens to verify", &Capacity::verified},
      {"drafts", &Capacity::trials},
      {"distributions to draw from", &Capacity::probs},
      {"rows of a draft's pass", &Capacity::width}};
  for (const auto& [name, part] : kParts) {
    if (needed.*part <= room.*part) continue;
    fail("--tree {}: {} {}, and there is room for the {} of --tree {}", tree, needed.*part, name,
         room.*part, run.tree);
  }
}

RunOptions with_levels(RunOptions options, const MakeTreeShape& shape) {
  const int levels = shape()->levels();
  if (levels != largest_spec_length(options)) options.given_spec_length = true;
  options.spec_length = levels;
  return options;
}

}  // namespace

TreeRun::TreeRun(const RunOptions& options)
    : profile_(read_tree_profile(options)),
      shape_(shape_of(options, profile_)),
      options_(with_levels(with_base_kind(options), shape_)),
      shapes_(shapes_of_drafts(options_, shape_)),
      rule_(sibling_rule_of(options)) {}

RoundCapacity TreeRun::capacity() const {
  if (options_.other_drafts.empty()) return round_capacity(options_, shape_);
  std::vector<RoundCapacity> of_drafts;
  for (const MakeTreeShape& shape : shapes_) of_drafts.push_back(capacity_of(shape));
  return [of_drafts](int K) {
    std::vector<Capacity> parts;
    for (const RoundCapacity& of_draft : of_drafts) parts.push_back(of_draft(K));
    return side_by_side(parts);
  };
}

SpeculationOptions TreeRun::speculation() const {
  SpeculationOptions speculation = speculation_options(options_);
  speculation.rule = rule_.of_one;
  return speculation;
}

// The host judges for --explain, --trace, gates that look at q, lenience, rules of no device, and
// several draft models.
KeepProbs TreeRun::keep() const {
  const bool on_host = is_looked_at() || entry_of(options_.draft_length).asks_the_draft ||
                       options_.lenience < 1 || !rule_.on_device || !options_.other_drafts.empty();
  return on_host ? KeepProbs::kOnHost : KeepProbs::kBesideLogits;
}

Drafting TreeRun::drafting(KeepProbs keep, const MakeTreeShape& shape) const {
  Drafting drafting = adaptive_drafting(keep, false);
  // On a device, stage 5's drafter of a chain lets a draft go to the next step without the host.
  const bool chain = is_one_chain(options_.tree) && rule_.rule != nullptr;
  drafting.make = [shape, keep, chain, of_chain = drafting.make](
                      LanguageModel& model, const Capacity& capacity,
                      int vocab_size) -> std::unique_ptr<Drafter> {
    std::unique_ptr<TreeBrancher> brancher;
    if (keep == KeepProbs::kBesideLogits && model.backend().samples()) {
      if (chain) return of_chain(model, capacity, vocab_size);
      brancher = std::make_unique<DeviceTreeBrancher>(
          model.backend(), capacity_of(shape)(kSpecLengths.highest), vocab_size,
          capacity.context + 1, capacity.requests);
    }
    return std::make_unique<ModelTreeDrafter>(model, shape, capacity.context + 1, vocab_size,
                                              capacity.requests, std::move(brancher));
  };
  drafting.make_learning = [shape, chain](const RunOptions& options, const ModelFiles& files) {
    if (chain || options.draft_kind != DraftKind::kSuffix)
      return make_learning_drafter(options, files);
    return make_suffix_drafter(options, files, shape()->capacity(shape()->levels()).verified);
  };
  drafting.make_lookup = [shape] {
    return std::make_unique<LookupTreeDrafter>(LookupTreeDrafter::options_for(*shape()));
  };
  return drafting;
}

// Composes the drafters of all --draft; empty if there is one.
ComposeDrafter TreeRun::beside() const {
  if (options_.other_drafts.empty()) return {};
  return [this](DraftSetup& base, const Capacity& capacity) -> std::shared_ptr<Drafter> {
    std::vector<std::shared_ptr<Drafter>> drafters = {
        {std::shared_ptr<void>(), &base.own_drafter()}};  // owned by base
    for (std::size_t k = 0; k < options_.other_drafts.size(); k++) {
      RunOptions of_other = options_;
      of_other.draft = options_.other_drafts[k];
      const auto part = make_part(std::move(of_other), base, capacity,
                                  drafting(KeepProbs::kOnHost, shapes_[k + 1]));
      base.note_beside(*part->setup);
      drafters.emplace_back(part, &part->setup->own_drafter());
    }
    return std::make_shared<SideBySideDrafter>(std::move(drafters), shape_()->levels(),
                                               base.target().config().vocab_size,
                                               capacity.requests);
  };
}

// ---- one request

SessionParts TreeRun::parts() {
  SessionParts parts = adaptive_.parts(options_, drafting(keep()), capacity());
  if (!options_.other_drafts.empty()) parts.compose = beside();
  return parts;
}

std::unique_ptr<RoundJudge> TreeRun::make_judge(const Session& run, RandomSource& random) const {
  Backend& backend = *run.target.backend;
  const Capacity& capacity = run.steps.drafts().capacity();
  if (is_greedy(options_)) {
    return std::make_unique<GreedyTreeJudge>(backend, backend.samples() ? capacity.rows() : 0);
  }
  auto judge = std::make_unique<SamplingTreeJudge>(
      backend, random, speculation(), rule_,
      std::make_shared<JudgingScratch>(capacity.verified, run.steps.V()));
  if (!run.steps.drafts().on_device()) return judge;
  return judge_on_device(*judge, run.target.llama, capacity, Overlaps::kNotCounted,
                         rule_.on_device);
}

RoundEvidence TreeRun::evidence(const Session& run, const RoundJudge& judge) {
  if (!is_looked_at()) return {};
  RoundEvidence evidence;
  if (const auto* sampling = dynamic_cast<const Judge*>(&judge)) {
    evidence = {.drafts = &run.steps.drafts(),
                .target_probs = [sampling](int row) { return sampling->target_probs(row); }};
  } else {
    if (!greedy_evidence_) greedy_evidence_ = std::make_unique<GreedyEvidence>(run.steps);
    evidence = *greedy_evidence_;
    evidence.compares_at_once = true;
  }
  evidence.is_tree = true;
  evidence.notes = run.steps.policy().notes();
  return evidence;
}

void TreeRun::count(const Session& run, const Round& round) {
  const Drafts& tree = run.steps.drafts();
  nodes_ += tree.size();
  trials_ += tree.n_trials();
  for (const int tested : round.tested_at) trials_tested_ += tested;
  for (const int node : round.path) {
    const std::size_t rank = rank_of(tree, node);
    if (accepted_by_rank_.size() <= rank) accepted_by_rank_.resize(rank + 1);
    accepted_by_rank_[rank]++;
  }
  if (!options_.write_tree_profile.empty()) profile_.count(tree, round);
}

Judgement TreeRun::judgement(const Session& run, RoundJudge& judge) const {
  auto* sampling = dynamic_cast<Judge*>(&judge);
  if (sampling == nullptr) {
    return {.drafting = judge.drafting(),
            .choose = [&run](auto) { argmax(*run.target.backend, run.steps.logits_rows(1)); }};
  }
  Judgement judgement = specdec::judgement(run, *sampling);
  if (options_.lenience == 1) judgement.rule = rule_.name;
  return judgement;
}

ReportExtras TreeRun::extras(Session& run) const {
  ReportExtras extras = adaptive_.extras(run);
  const bool speculates = !options_.no_speculation;
  extras.fields["tree"] = speculates ? Json(options_.tree) : Json(nullptr);
  extras.fields["tree_profile"] = profile_.levels.empty() ? Json(nullptr) : to_json(profile_);
  extras.fields["siblings"] = is_greedy(options_) ? "greedy" : rule_.name;
  if (!speculates) return extras;
  const auto rounds = static_cast<double>(run.stats.rounds);
  extras.stats["nodes"] = nodes_;
  extras.stats["trials"] = trials_;
  extras.stats["trials_tested"] = trials_tested_;
  extras.stats["accepted_by_rank"] = accepted_by_rank_;
  extras.stats["emitted_per_round"] = static_cast<double>(run.stats.emitted) / rounds;
  extras.summary += fmt::format("{} rounds of {:.1f} nodes: {:.2f} tokens per round\n",
                                run.stats.rounds, static_cast<double>(nodes_) / rounds,
                                static_cast<double>(run.stats.emitted) / rounds);
  return extras;
}

void TreeRun::write_profile() const {
  if (options_.write_tree_profile.empty()) return;
  write_tree_profile(profile_, options_.write_tree_profile);
}

// ---- a batch

namespace {

// The device that judges trees knows no lenience, so where they are judged is decided beforehand.
MakeBatchRequest with_lenience_of(const RunOptions& usual, const MakeBatchRequest& make) {
  return [make, lenient = usual.lenience < 1](const ModelFiles& files, const RunOptions& options) {
    if (options.lenience < 1 && !lenient) fail("--lenience: start the server with --lenience");
    return make(files, options);
  };
}

}  // namespace

MakeBatchRequest TreeRun::make_request() const {
  return [this](const ModelFiles& files, const RunOptions& options) {
    check_drafts_differ(options);
    const MakeTreeShape shape = shape_of_request(options);
    BatchRequest request = to_batch_request(files, options);
    if (!why_one_tree(options_).empty()) return request;
    request.make_shape = shape;
    request.capacity = round_capacity(options_, shape);
    return request;
  };
}

// Throws Error for a tree that this run does not draft, or has no memory for.
MakeTreeShape TreeRun::shape_of_request(const RunOptions& options) const {
  if (options.tree == options_.tree) return shape_;
  std::string_view why = why_one_tree(options_);
  if (is_one_chain(options_.tree)) why = "chains";
  if (!why.empty()) {
    fail("--tree {}: this run drafts --tree {} for every request, because of its {}", options.tree,
         options_.tree, why);
  }
  check_tree(options);
  RunOptions own = options_;
  own.tree = options.tree;
  own.given_spec_length = true;
  const MakeTreeShape shape = shape_of(own, profile_);
  check_room(own.tree, round_capacity(own, shape)(shape()->levels()), options_,
             capacity()(options_.spec_length));
  return shape;
}

BatchParts TreeRun::batch_parts(AdaptiveBatch& adaptive,
                                std::span<const BatchRequest> requests) const {
  const bool lenient = std::ranges::any_of(
      requests, [](const BatchRequest& request) { return request.speculation.lenience < 1; });
  const KeepProbs kept = adaptive.asks_the_draft() || lenient ? KeepProbs::kOnHost : keep();
  BatchParts parts = adaptive_parts(options_, drafting(kept));
  if (!options_.other_drafts.empty()) parts.compose = beside();
  parts.capacity = capacity();
  parts.judging = [this, kept](const BatchSession& session) {
    Judging judging = judging_of_trees(rule_);
    if (kept == KeepProbs::kOnHost || !session.target.backend->samples()) return judging;
    return judging_on_device(std::move(judging), session, rule_.on_device);
  };
  return adaptive.within_budget(std::move(parts), options_);
}

int TreeRun::serve_batch(const std::function<BatchParts(BatchParts)>& adjust) const {
  if (!options_.serve.empty()) return serve_socket(adjust);
  ModelFiles files = open_model(options_.target);
  AdaptiveBatch adaptive;
  QueueInbox inbox(options_, files, adaptive.make_request(make_request()));
  const BatchParts parts = adjust(batch_parts(adaptive, inbox.requests()));
  BatchSession session(sized_for(inbox.requests(), options_, parts.capacity), std::move(files),
                       parts);
  adaptive.begin(session, parts.capacity);
  BatchReport report(session, inbox.requests());
  report.begin();
  inbox.report_to(report);
  serve(session.engine, inbox);
  adaptive.add_to(session);
  add_to(session);
  return report.finish();
}

int TreeRun::serve_socket(const std::function<BatchParts(BatchParts)>& adjust) const {
  AdaptiveBatch adaptive;
  return serve_run(options_, [&](const ModelFiles& files, const RunOptions& usual) -> ServedStage {
    const MakeBatchRequest make = adaptive.make_any_request(files, usual, make_request());
    const BatchRequest example = make(files, usual);
    const BatchParts parts = adjust(batch_parts(adaptive, std::span(&example, 1)));
    return {.make = with_lenience_of(usual, make),
            .parts = parts,
            .begin = [&adaptive, capacity = parts.capacity](BatchSession& session) {
              adaptive.begin(session, capacity);
            }};
  });
}

void TreeRun::add_to(BatchSession& session) const {
  ReportExtras& extras = session.extras;
  const bool speculates = !session.options.no_speculation;
  const EngineStats& stats = session.engine.stats();
  const std::int64_t nodes = stats.round_rows - stats.rounds;  // one row per round is pending
  extras.fields["tree"] = speculates ? Json(options_.tree) : Json(nullptr);
  extras.fields["siblings"] = rule_.name;
  extras.fields["nodes"] = nodes;
  if (!speculates || stats.rounds == 0) return;
  extras.summary += fmt::format("{} rounds of {:.1f} nodes\n", stats.rounds,
                                static_cast<double>(nodes) / static_cast<double>(stats.rounds));
}

}  // namespace specdec
