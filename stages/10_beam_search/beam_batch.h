#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "stages/10_beam_search/beam_round.h"

namespace specdec {

// One request of a batch. A beam of one is an ordinary greedy request.
struct BeamRequest {
  std::vector<TokenId> prompt;
  int max_new_tokens = 0;
  std::vector<TokenId> eos_ids = {};
  BeamOptions beams = {};
  int draft_width = 0;  // u; 0: that of the batch
};

struct BeamResult {
  std::vector<Hypothesis> hypotheses;  // the best first
  int steps = 0, rounds = 0;
  int preemptions = 0;  // how often it lost what was cached
};

// Serves many searches at once, by the rules of stage 6's scheduler: first come, first served. A
// request is admitted when a pass has rows, and the caches have room, for all admitted requests and
// for it. If the caches have no room for the next round, the youngest request is preempted: it
// keeps its texts and scores, and waits again. Each request finds what it finds alone.
class BeamBatch {
 public:
  // max_rows: of a pass. max_cached: the most tokens that a request may cache, in each model.
  // REQUIRES: target and drafter outlive this object; both caches have room for max_cached tokens.
  BeamBatch(LanguageModel& target, BeamDrafter& drafter, const BeamDrafting& drafting, int max_rows,
            int max_cached);

  // Queues a request, and returns its number. Throws Error, and changes nothing, if the prompt is
  // empty, or if the request may need more rows or more room than there is even for it alone.
  int add(const BeamRequest& request);

  // Admits, preempts, and makes a round of every admitted request.
  void step();

  bool idle() const { return waiting_.empty() && admitted_.empty(); }
  int admitted() const { return static_cast<int>(admitted_.size()); }
  bool has_result(int request) const { return results_.contains(request); }
  // Returns the outcome of a finished request, and forgets it.
  BeamResult take_result(int request);

 private:
  struct Entry {
    int number = 0;
    BeamRequest request;
    std::unique_ptr<BeamRun> run = {};  // none before the first admission
    BeamResult result = {};
  };

  int width(const BeamRequest& request) const;
  int rows(const BeamRequest& request) const;
  bool admit();
  void preempt_youngest();
  void end(Entry& entry);
  std::vector<BeamRun*> runs() const;

  LanguageModel& target_;
  BeamDrafter& drafter_;
  BeamDrafting drafting_;
  int max_rows_, max_cached_;
  BeamRounds rounds_;
  std::deque<Entry> waiting_, admitted_;  // by age
  std::map<int, BeamResult> results_;
  int added_ = 0;
};

}  // namespace specdec
