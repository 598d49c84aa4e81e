#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "common/base/json_value.h"
#include "common/generation.h"
#include "common/kv_cache.h"
#include "common/run_stats.h"
#include "stages/04_greedy_speculation/draft_and_verify.h"
#include "stages/programs/check/tensor_log.h"
#include "stages/programs/run/options.h"
#include "stages/programs/show/report.h"
#include "stages/programs/speculation/draft_setup.h"
#include "stages/programs/speculation/round_record.h"
#include "stages/programs/speculation/round_text.h"

namespace specdec {

// The evidence of greedy rounds. Argmax has no probabilities, so this shows the logits' softmax.
class GreedyEvidence {
 public:
  explicit GreedyEvidence(const DraftAndVerify& steps);

  operator RoundEvidence();  // REQUIRES: this object outlives the result

 private:
  std::span<const double> softmax(int row);

  const DraftAndVerify& steps_;
  std::vector<float> logits_;  // [V]
  std::vector<double> probs_;  // [V]
  SamplingScratch scratch_;
};

// Shows the rounds of a run: the coloured text, --explain, --trace and --dump-logits. It works
// between the rounds, so their times do not include it.
class RoundLog {
 public:
  // REQUIRES: all arguments outlive this object.
  RoundLog(const RunOptions& options, const ModelFiles& files, const GenerationRequest& request,
           const Generation& generation, const KvCache& target_cache, const DraftSetup& draft);

  // Call before every round, and after it once stats include it. evidence: the inputs of its
  // decisions.
  void before_round(const DraftAndVerify& steps, const RunStats& stats);
  void after_round(const DraftAndVerify& steps, const Round& round,
                   std::span<const TokenId> context, const RoundEvidence& evidence,
                   const RunStats& stats);

  // Writes the files. stats: as in the report; rule: the acceptance rule's name. Throws Error.
  void write(const Json& stats, std::string_view rule, bool lossless) const;

 private:
  RoundRecord::State state(const DraftAndVerify& steps) const;

  const RunOptions& options_;
  const ModelFiles& files_;
  const GenerationRequest& request_;
  const Generation& generation_;
  const KvCache& target_cache_;
  const DraftSetup& draft_;
  RoundText text_;
  LogitsLog logits_;
  std::vector<RoundRecord> records_;
  bool of_trees_ = false;  // whether the records are of trees
  RoundRecord::State before_;
  RunStats stats_before_;
};

}  // namespace specdec
