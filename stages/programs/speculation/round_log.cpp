#include "stages/programs/speculation/round_log.h"

#include <set>

#include "common/base/json_value.h"
#include "common/base/streams.h"
#include "common/base/terminal.h"
#include "common/run_stats.h"
#include "stages/programs/speculation/trace_file.h"

namespace specdec {
namespace {

void collect(std::set<TokenId>& ids, const RoundRecord::Distributions& distributions) {
  for (const RoundRecord::Share& share : distributions.tokens) ids.insert(share.token);
}

// The tokens that the rounds mention.
std::set<TokenId> mentioned(const std::vector<RoundRecord>& records) {
  std::set<TokenId> ids;
  for (const RoundRecord& record : records) {
    if (record.tree) {
      for (const RoundRecord::Node& node : record.tree->nodes) ids.insert(node.drafted.token);
    }
    for (const RoundRecord::Draft& draft : record.drafts) {
      ids.insert(draft.token);
      if (draft.distributions) collect(ids, *draft.distributions);
    }
    if (record.last && record.last->distributions) collect(ids, *record.last->distributions);
  }
  return ids;
}

}  // namespace

GreedyEvidence::GreedyEvidence(const DraftAndVerify& steps)
    : steps_(steps), logits_(steps.V()), probs_(logits_.size()), scratch_(steps.V()) {}

GreedyEvidence::operator RoundEvidence() {
  return {.drafts = &steps_.drafts(), .target_probs = [this](int row) { return softmax(row); }};
}

std::span<const double> GreedyEvidence::softmax(int row) {
  steps_.target().backend().download(steps_.logits(row).row(0), logits_.data(),
                                     logits_.size() * sizeof(float));
  probabilities(logits_, {}, {.temperature = 1}, scratch_, probs_);
  return probs_;
}

RoundLog::RoundLog(const RunOptions& options, const ModelFiles& files,
                   const GenerationRequest& request, const Generation& generation,
                   const KvCache& target_cache, const DraftSetup& draft)
    : options_(options),
      files_(files),
      request_(request),
      generation_(generation),
      target_cache_(target_cache),
      draft_(draft),
      text_(options),
      logits_(options.dump_logits) {}

RoundRecord::State RoundLog::state(const DraftAndVerify& steps) const {
  return {cache_state(&target_cache_, steps.sequence(), steps.target().length(steps.sequence())),
          cache_state(draft_.cache(), steps.draft_sequence(),
                      steps.drafter().length(steps.draft_sequence()))};
}

void RoundLog::before_round(const DraftAndVerify& steps, const RunStats& stats) {
  if (!options_.explain && options_.trace.empty()) return;
  before_ = state(steps);
  stats_before_ = stats;
}

void RoundLog::after_round(const DraftAndVerify& steps, const Round& round,
                           std::span<const TokenId> context, const RoundEvidence& evidence,
                           const RunStats& stats) {
  text_.finish_round(round, generation_, steps.drafts(), files_.tokenizer_or_null());
  if (logits_.wanted()) {
    for (int i = 0; i < round.emitted(); i++) {
      logits_.add(steps.target().backend(), steps.logits(round.row_of(i)));
    }
  }
  if (!options_.explain && options_.trace.empty()) return;
  RoundRecord record = record_round(round, context, evidence);
  of_trees_ = evidence.is_tree;
  record.before = before_;
  record.after = state(steps);
  record.draft_seconds = stats.draft_seconds - stats_before_.draft_seconds;
  record.verify_seconds = stats.verify_seconds - stats_before_.verify_seconds;
  record.other_seconds = stats.decode_seconds - stats_before_.decode_seconds -
                         record.draft_seconds - record.verify_seconds;
  if (options_.explain) {
    const auto number = static_cast<int>(stats.rounds);
    say_text(explain(record, number, files_.tokenizer_or_null(), use_colour(stderr)));
  }
  if (!options_.trace.empty()) records_.push_back(std::move(record));
}

void RoundLog::write(const Json& stats, std::string_view rule, bool lossless) const {
  logits_.write();
  if (options_.trace.empty()) return;
  TraceFile trace{.format = of_trees_ ? kTreeTrace : kChainTrace,
                  .options = options_,
                  .tokenizer = files_.tokenizer_or_null(),
                  .request = request_,
                  .generation = generation_,
                  .rule = rule,
                  .lossless = lossless,
                  .page_size = target_cache_.page_size(),
                  .draft_page_size = draft_.cache() ? draft_.cache()->page_size() : 0,
                  .spec_length = spec_length_json(options_),
                  .stats = stats,
                  .tokens = mentioned(records_)};
  for (const RoundRecord& record : records_) trace.rounds.push_back(to_json(record));
  if (of_trees_) trace.more["tree"] = options_.tree;
  specdec::write(trace);
}

}  // namespace specdec
